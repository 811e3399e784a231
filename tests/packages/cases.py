"""Small models of packages that people run on CPUs, with weights and inputs that do not depend on a random generator.

The cases are in the modules that `register_all` names. Each returns arrays by name: `record.py` runs them under PyTorch
and keeps what comes out, the tests run them under flambeau and compare. Nothing is downloaded, and no case draws random
numbers whose values reach its result.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
import zlib
from collections.abc import Callable

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())  # otherwise it writes into the home folder

CASES: dict[str, tuple[str, Callable[[], dict]]] = {}  # name: the package it needs, the function


def case(package: str) -> Callable:
    def register(function: Callable) -> Callable:
        CASES[function.__name__] = (package, function)
        return function

    return register


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def numbers(name: str, *shape: int) -> np.ndarray:
    """Normal numbers that belong to a name."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)


def tokens(name: str, size: int, *shape: int):
    import torch

    return torch.from_numpy(np.random.default_rng(zlib.crc32(name.encode())).integers(3, size, shape))


def tensor(name: str, *shape: int):
    import torch

    return torch.from_numpy(numbers(name, *shape))


def fill(model):
    """Gives every parameter numbers that belong to its name, in sizes that keep activations near 1."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = numbers(name, *parameter.shape)
            if parameter.ndim < 2:
                value = 0.1 * value + (1.0 if name.endswith("weight") else 0.0)
            else:
                value /= np.sqrt(np.prod(parameter.shape[1:]))
            parameter.copy_(torch.from_numpy(np.asarray(value, np.float32)))
    return model.eval()


def arrays(results: dict) -> dict[str, np.ndarray]:
    """Tensors as arrays."""
    return {
        name: value.detach().cpu().float().numpy() if hasattr(value, "detach") else np.asarray(value)
        for name, value in results.items()
    }


def register_all() -> dict[str, tuple[str, Callable[[], dict]]]:
    for module in ("text_models", "image_models", "training"):
        importlib.import_module(module)
    return CASES


# ---- small models that several cases use -------------------------------------------------------------------------

TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def decoder(name: str, **options):
    import transformers

    common = {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    options = {**TEXT, **common, **options}
    return fill(transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(name, **options)))


WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog car sits runs drives on under mat road quickly sleeps".split()


def text_folder(folder: str) -> str:
    """A folder with a small BERT and a tokenizer of whole words."""
    import transformers

    with open(os.path.join(folder, "vocab.txt"), "w") as file:
        file.write("\n".join(WORDS) + "\n")
    fill(transformers.BertModel(transformers.BertConfig(**{**TEXT, "vocab_size": len(WORDS)}))).save_pretrained(folder)
    transformers.BertTokenizer(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
    return folder
