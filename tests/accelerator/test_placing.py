"""Getting tensors to a device and back: saving, pickling, copying, pinned memory, defaults, generators, threads, forks."""

import copy
import multiprocessing
import pickle
import threading

import pytest

import flambeau as fb

DEVICE = fb.device("sim", 0)


@pytest.mark.parametrize("name", ["tensors.safetensors", "tensors.pt"])
def test_saved_tensors_of_a_device(name, tmp_path):
    x = fb.arange(6.0, device=DEVICE).view(2, 3)
    there = {"x": x, "row": x[1], "turned": x.t(), "here": fb.ones(2), "reversed": x.flip(0)}
    fb.save(there, tmp_path / name)
    for where, kind in ((None, DEVICE.type if name.endswith("pt") else "cpu"), ("cpu", "cpu"), (DEVICE, DEVICE.type)):
        loaded = fb.load(tmp_path / name, map_location=where)
        for key, tensor in there.items():
            assert fb.equal(loaded[key].cpu(), tensor.cpu()) and loaded[key].stride() == tensor.stride()
        assert loaded["x"].device.type == kind
        loaded["row"].zero_()
        assert loaded["x"][1].sum().item() == 0  # they share memory as before
    model = fb.nn.Linear(3, 2).to(DEVICE)
    fb.save(model.state_dict(), tmp_path / name)
    other = fb.nn.Linear(3, 2)
    other.load_state_dict(fb.load(tmp_path / name))
    assert fb.equal(other.weight, model.weight.cpu()) and other.weight.device.type == "cpu"


def test_a_file_of_a_device_that_is_not_there(tmp_path):
    if DEVICE.type == "opencl":
        pytest.skip("the index is what is missing; one kind is enough")
    fb.save({"x": fb.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        fb.load(tmp_path / "x.pt", map_location={"cpu": "sim:3"})


def test_pickles_and_copies_stay_on_the_device(tmp_path):
    x = fb.arange(4.0, device=DEVICE, requires_grad=True)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert made.device == DEVICE and made.requires_grad and fb.equal(made, x)
        with fb.no_grad():
            made.zero_()
        assert x.sum().item() == 6
    model = copy.deepcopy(fb.nn.Linear(2, 2).to(DEVICE))
    assert model(fb.ones(2, device=DEVICE)).device == DEVICE
    generator = pickle.loads(pickle.dumps(fb.Generator(DEVICE).manual_seed(3)))
    assert generator.device == DEVICE and generator.initial_seed() == 3
    fb.save({"here": fb.Generator().manual_seed(4), "there": generator}, tmp_path / "generators.pt")
    loaded = fb.load(tmp_path / "generators.pt", weights_only=False)
    assert (loaded["here"].device.type, loaded["there"].device) == ("cpu", DEVICE) and loaded["here"].initial_seed() == 4


def test_pinned_memory(monkeypatch):
    x = fb.randn(5, 7).t()
    pinned = x.pin_memory(DEVICE)
    assert pinned.is_pinned() and not x.is_pinned() and fb.equal(pinned, x) and pinned.stride() == x.stride()
    assert pinned.pin_memory(DEVICE) is pinned and pinned[1:].is_pinned() and pinned.untyped_storage().is_pinned()
    assert fb.equal(pinned.to(DEVICE, non_blocking=True).cpu(), x) and fb.zeros(0, 3).pin_memory(DEVICE).shape == (0, 3)
    assert fb.ones(3, dtype=fb.bfloat16).pin_memory(DEVICE).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        x.to(DEVICE).pin_memory(DEVICE)
    with pytest.raises(RuntimeError, match="no accelerator"):
        x.pin_memory()
    del pinned
    with monkeypatch.context() as patch:
        patch.setenv("FLAMBEAU_DEVICE", DEVICE.type)
        for made in (fb.zeros(3, pin_memory=True), fb.tensor([0.0, 0, 0], pin_memory=True), fb.arange(3.0, pin_memory=True) * 0):
            assert made.tolist() == [0, 0, 0]
        made = fb.ones(2, 3, pin_memory=True, requires_grad=True)
        assert made.is_pinned() and made.requires_grad and made.is_leaf and not fb.ones(2, pin_memory=False).is_pinned()
        with pytest.raises(RuntimeError, match="only dense CPU tensors"):
            fb.ones(2, device=DEVICE, pin_memory=True)
    del made
    from flambeau._tensor import pinning

    assert not pinning._ranges


def test_loaders_pin_batches(monkeypatch):
    data = [{"x": fb.full((2,), float(i)), "names": ("a", i)} for i in range(5)]
    loader = fb.utils.data.DataLoader(data, batch_size=2, pin_memory=True, pin_memory_device=DEVICE.type)
    batches = list(loader)
    assert all(batch["x"].is_pinned() and batch["names"][1].is_pinned() for batch in batches)
    assert batches[2]["x"].tolist() == [[4, 4]] and tuple(batches[0]["names"][0]) == ("a", "a")


def test_defaults():
    with DEVICE:
        assert fb.zeros(2).device == DEVICE and fb.tensor([1.0]).device == DEVICE and fb.nn.Linear(2, 2).weight.device == DEVICE
    assert fb.zeros(2).device.type == "cpu"
    fb.set_default_device(DEVICE)
    try:
        assert fb.rand(2).device == DEVICE and fb.get_default_device() == DEVICE
    finally:
        fb.set_default_device("cpu")


def test_generators_give_the_cpus_numbers():
    for make in (fb.rand, fb.randn, lambda n, **k: fb.randint(100, (n,), **k)):
        there = make(100, device=DEVICE, generator=fb.Generator(DEVICE).manual_seed(5))
        here = make(100, generator=fb.Generator().manual_seed(5))
        assert there.device == DEVICE
        fb.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-6)
    assert fb.Generator(DEVICE).device == DEVICE and fb.Generator().device.type == "cpu"


def test_threads_compute_side_by_side():
    x, results = fb.randn(64, 64), {}

    def work(number):
        own = x.to(DEVICE) + number
        for _ in range(5):
            own = own.tanh() @ x.to(DEVICE)
        results[number] = own.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in results.items():
        own = x + number
        for _ in range(5):
            own = own.tanh() @ x
        assert result == pytest.approx(own.sum().item(), rel=1e-3, abs=1e-2)


def _use(queue, kind):
    try:
        queue.put(str(fb.ones(2, device=kind).sum().item()))
    except RuntimeError as error:
        queue.put(str(error))


def test_a_forked_child_is_told():
    fb.ones(1, device=DEVICE).item()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_use, args=(queue, DEVICE.type))
    child.start()
    assert "in a forked subprocess" in queue.get()
    child.join()
    assert child.exitcode == 0
