"""What weights of fewer bits cost: perplexity of a small GPT, trained here, with its weights in several formats.

    python benchmarks/accuracy.py [--steps 600] [--width 256] [--layers 3]

The model is the one of examples/char_gpt.py, trained on the standard library's source; every format predicts the same
unseen text. Perplexity is per character. "changed" counts predictions of the next character that differ from float32's.
"""

from __future__ import annotations

import argparse
import copy
import runpy
import time
from pathlib import Path

import numpy as np

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.quantization import QuantizedTensor

GPT = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "char_gpt.py"))
BATCH, CONTEXT = 8, 128


def q4_k(weight: fb.Tensor) -> QuantizedTensor:
    """GGUF's Q4_K by rounding: groups of 32 with 6-bit scales and offsets, which 256 numbers share two floats for."""
    w = weight.detach().float().numpy()
    groups = w.reshape(-1, 8, 32)
    low = np.minimum(groups.min(-1), 0)
    scale, offset = (groups.max(-1) - low).clip(0) / 15, -low
    d, dmin = ((part.max(-1, keepdims=True) / 63).astype(np.float16) for part in (scale, offset))
    steps, starts = (
        np.rint(part / np.where(unit == 0, 1, unit)).clip(0, 63).astype(np.uint8)
        for part, unit in ((scale, d.astype(np.float32)), (offset, dmin.astype(np.float32)))
    )
    size, start = (d.astype(np.float32) * steps)[..., None], (dmin.astype(np.float32) * starts)[..., None]
    q = np.rint((groups + start) / np.where(size == 0, 1, size)).clip(0, 15).astype(np.uint8)
    packed = np.zeros((len(q), 12), np.uint8)
    packed[:, :4] = steps[:, :4] | (steps[:, 4:] >> 4) << 6
    packed[:, 4:8] = starts[:, :4] | (starts[:, 4:] >> 4) << 6
    packed[:, 8:] = steps[:, 4:] & 15 | (starts[:, 4:] & 15) << 4
    nibbles = (q[:, ::2] | q[:, 1::2] << 4).reshape(len(q), 128)
    blocks = np.concatenate([d.view(np.uint8), dmin.view(np.uint8), packed, nibbles], axis=1)
    return QuantizedTensor(fb.from_numpy(np.ascontiguousarray(blocks.reshape(w.shape[0], -1))), "q4_k")


def with_q4_k(model: fb.nn.Module) -> fb.nn.Module:
    """Replaces the linear layers, and the embedding that shares its weight with the last one."""
    shared = q4_k(model.characters.weight)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is fb.nn.Linear:
                weight = shared if child is model.head else q4_k(child.weight)
                setattr(parent, name, fb.nn.QuantizedLinear.from_weight(weight, child.bias))
    model.characters = fb.nn.QuantizedEmbedding.from_weight(shared)
    return model


def train(options: argparse.Namespace, text: fb.Tensor) -> fb.nn.Module:
    model = GPT["CharGPT"](CONTEXT, options.width, 4, options.layers)
    optimizer = fb.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = fb.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=options.steps)
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = GPT["loss_of"](model, GPT["draw_batch"](text, BATCH, CONTEXT))
        loss.backward()
        fb.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@fb.inference_mode()
def judged(model: fb.nn.Module, text: fb.Tensor, pieces: int = 200) -> tuple[float, fb.Tensor]:
    """Perplexity on the first pieces of the text, and the character that is expected at each place."""
    pieces = text[: pieces * (CONTEXT + 1)].reshape(pieces, CONTEXT + 1)
    losses, best = [], []
    for part in pieces.split(20):
        logits = model(part[:, :-1]).float()
        losses.append(F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()).item())
        best.append(logits.argmax(-1))
    return float(np.exp(np.mean(losses))), fb.cat(best)


def quantized(model: fb.nn.Module, *arguments) -> fb.nn.Module:
    fb.quantize_(model, *arguments[:1], group_size=arguments[1] if len(arguments) > 1 else None)
    return model


def kilobytes(model: fb.nn.Module) -> float:
    return sum({t.data_ptr(): t.numel() * t.itemsize for t in model.state_dict().values()}.values()) / 1e3


FORMATS = {
    "float32": lambda model: model,
    "bfloat16": lambda model: model.bfloat16(),
    "int8": lambda model: quantized(model, "int8"),
    "int8_dynamic": lambda model: quantized(model, "int8_dynamic"),
    "int4, groups of 32": lambda model: quantized(model, "int4", 32),
    "int4, groups of 128": lambda model: quantized(model, "int4", 128),
    "Q4_K": with_q4_k,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--width", type=int, default=256, help="a multiple of 256, which Q4_K asks for")
    parser.add_argument("--layers", type=int, default=3)
    options = parser.parse_args()
    fb.manual_seed(0)
    text = GPT["encode"](GPT["read_library"]())
    unseen = 200 * (CONTEXT + 1)
    start = time.perf_counter()
    model = train(options, text[:-unseen])
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count / 1e6:.1f} M parameters, {options.steps} steps in {time.perf_counter() - start:.0f} s\n")
    print("| weights | size | perplexity | against float32 | changed |")
    print("|---|---|---|---|---|")
    reference = None
    for name, change in FORMATS.items():
        changed = change(copy.deepcopy(model))
        perplexity, best = judged(changed, text[-unseen:])
        reference = reference or (perplexity, best)
        other = (best != reference[1]).float().mean().item()
        cells = f"{kilobytes(changed):.0f} kB", f"{perplexity:.4f}", f"{perplexity / reference[0] - 1:+.2%}", f"{other:.2%}"
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
