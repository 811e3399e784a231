"""Many shapes leave nothing behind, and indices that need more than 32 bits."""

from __future__ import annotations

import flambeau as fb

DEVICE = fb.device("sim", 0)


def test_a_thousand_shapes_need_no_more_memory_or_programs():
    def work(n):
        x = fb.randn(8 + n % 25, 30 + n // 25, device=DEVICE)
        y = ((x @ x.mT).softmax(1).sum(0) + x.var()).relu()
        fb.cat((y, y[1:]))[::2].sum().item()

    def count():
        return len(fb._C.accelerator_sources()), fb.accelerator.memory_reserved(DEVICE)

    for n in range(0, 1000, 7):
        work(n)
    work(999)
    before = count()
    for n in range(1000):
        work(n)
    assert count() == before


def test_indices_beyond_32_bits():
    """Few elements, far apart: memory is only touched where they are. On processors indices are wide anyway."""
    before = len(fb._C.accelerator_sources())
    step = 2**31 + 10
    memory = fb.empty(step + 1, dtype=fb.uint8, device=DEVICE)
    far = memory[::step]
    far.copy_(fb.tensor([3, 200], dtype=fb.uint8))
    assert far.sum().item() == 203 and far.max().item() == 200 and (far + 1).tolist() == [4, 201]
    places = fb.tensor([step, 0, step], device=DEVICE)
    assert memory[places].tolist() == memory.index_select(0, places).tolist() == memory.gather(0, places).tolist()
    memory[places[:2]] = fb.tensor([7, 8], dtype=fb.uint8, device=DEVICE)
    assert far.tolist() == [8, 7] and memory[step - 1 :][1].item() == 7
    far += 1
    assert far.flip(0).tolist() == [8, 9]
    rows = [source for source in fb._C.accelerator_sources()[before:] if "offsets[i]" in source]
    assert len(rows) == 2 and all("typedef i64 ix;" in source for source in rows)
