"""Models of transformers with random weights: Llamas that generate text, and a BERT of MiniLM's size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SIZES = {
    "100 M": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12},
    "400 M": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 22, "num_attention_heads": 16},
}
MINILM = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
VOCABULARY, PROMPT, NEW = 16000, 16, 16  # tokens


def import_transformers(lib: Any) -> Any:
    """transformers, whose torch is `lib`."""
    if lib.__name__ == "flambeau":
        lib.compat.install()
    import transformers

    return transformers


def randomize(lib: Any, model: Any) -> None:
    """Small numbers that are the same in both libraries and cheap to make."""
    import numpy as np

    numbers = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    with lib.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                part = np.resize(numbers, parameter.numel()).reshape(parameter.shape)
                parameter.copy_(lib.from_numpy(part * (parameter.shape[-1] ** -0.5)))


def llama(lib: Any, size: str) -> Any:
    """A Llama with random weights, made without drawing them twice."""
    transformers = import_transformers(lib)
    config = transformers.LlamaConfig(
        **SIZES[size], vocab_size=VOCABULARY, num_key_value_heads=SIZES[size]["num_attention_heads"] // 4,
        max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    with lib.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model = model.to_empty(device="cpu")
    for module in model.modules():  # buffers are not parameters: rotary frequencies are made anew
        if hasattr(module, "inv_freq"):
            module.__init__(config=config)
    with lib.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    randomize(lib, model)
    model.tie_weights()
    return model


def first_token(lib: Any, folder: str) -> None:
    """What a cold start does after its imports; the first process writes the weights."""
    transformers = import_transformers(lib)
    if not Path(folder, "config.json").exists():
        llama(lib, "100 M").save_pretrained(folder)
    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    model.generate(lib.tensor([[1, 5, 7]]), max_new_tokens=1, do_sample=False)


class Decoding:
    """A Llama that generates NEW tokens after a prompt, greedily, by transformers' `generate`.

    Args:
        lib: flambeau or torch, as a module.
        size: one of SIZES.
        dtype: of weights and activations.
        batch: sequences at once.
        form: a format for `quantize_`, None for plain weights.
        cache: transformers' name for the kind of cache, None for its own choice.
    """

    def __init__(
        self, lib: Any, size: str, dtype: str, batch: int, form: str | None = None, cache: str | None = None
    ) -> None:
        import numpy as np

        self.model = llama(lib, size).to(getattr(lib, dtype)).eval()
        if form is not None:
            lib.quantize_(self.model, form)
        ids = np.random.default_rng(1).integers(3, VOCABULARY, (batch, PROMPT))
        self.arguments = {
            "input_ids": lib.from_numpy(ids), "attention_mask": lib.ones(batch, PROMPT, dtype=lib.int64),
            "max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False,
        }  # fmt: skip
        if cache is not None:
            self.arguments["cache_implementation"] = cache

    def run(self) -> Any:
        return self.model.generate(**self.arguments)[:, PROMPT:]


class Embedding:
    """A BERT of MiniLM's size without gradients."""

    def __init__(self, lib: Any, rows: int, length: int) -> None:
        import numpy as np

        transformers = import_transformers(lib)
        self.lib = lib
        self.model = transformers.BertModel(transformers.BertConfig(**MINILM)).eval()
        randomize(lib, self.model)
        ids = np.random.default_rng(1).integers(3, 30000, (rows, length))
        self.ids, self.mask = lib.from_numpy(ids), lib.ones(rows, length, dtype=lib.int64)

    def run(self) -> Any:
        with self.lib.inference_mode():
            return self.model(input_ids=self.ids, attention_mask=self.mask).last_hidden_state


if __name__ == "__main__":
    first_token(__import__(sys.argv[1]), sys.argv[2])
