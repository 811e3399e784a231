"""Models in GGUF files: what load() returns for them.

Example:
    >>> issubclass(fb.gguf.GGUF, dict)
    True
"""

from __future__ import annotations

import typing
from typing import Any

import flambeau as fb
from flambeau._files import gguf_names
from flambeau.errors import ArgumentError
from flambeau.quantization import QuantizedTensor

if typing.TYPE_CHECKING:
    from flambeau.nn import Module

__all__ = ["GGUF"]
__dir__ = __all__.copy


class GGUF(dict[str, fb.Tensor | QuantizedTensor]):
    """The tensors of a GGUF file under the file's names.

    F32, F16, BF16 and integers are tensors; the other types are QuantizedTensor. Both are maps of the file where it
    was loaded from a path: their bytes come into memory when used.

    Args:
        tensors: by name.
        metadata: the fields of the file, those of the tokenizer among them: "tokenizer.ggml.tokens" is a list.

    Example:
        >>> file = fb.gguf.GGUF({"token_embd.weight": fb.zeros(8, 4)}, {"general.architecture": "llama"})
        >>> list(file.state_dict()), file.config()["vocab_size"]
        (['model.embed_tokens.weight'], 8)
    """

    def __init__(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        super().__init__(tensors)
        self.metadata = metadata

    @property
    def tokenizer(self) -> dict[str, Any]:
        """The fields of the tokenizer, without "tokenizer.ggml." before their names."""
        start = "tokenizer.ggml."
        return {key.removeprefix(start): value for key, value in self.metadata.items() if key.startswith(start)}

    def config(self) -> dict[str, Any]:
        """The settings as Hugging Face's configuration classes name them: LlamaConfig(**file.config())."""
        return gguf_names.config(self.metadata, self)

    def state_dict(self) -> dict[str, fb.Tensor | QuantizedTensor]:
        """The tensors under the names of Hugging Face's Llama, Mistral, Qwen, Gemma and Phi models.

        Where the model wants other numbers than the file has (the rows of Llama's q and k in another order, Gemma's
        norms less one), these tensors are copies.
        """
        made = {}
        for name, weight in self.items():
            new = gguf_names.renamed(name, self.metadata)
            if new is not None:
                made[new] = gguf_names.arranged(name, weight, self.metadata)
        return made

    def load_into(self, model: Module, dtype: fb.dtype | None = None) -> None:
        """Puts the tensors into a Hugging Face model of the same architecture.

        Linear layers and embeddings become QuantizedLinear and QuantizedEmbedding where the file has their weights as
        small integers, and read them from the file's map. Other parameters are replaced by the file's tensors.

        Args:
            model: changed in place; parameters may be on the meta device.
            dtype: of parameters that are plain tensors, and of what embeddings return; by default that of the model's
                parameter.
        """
        from flambeau.nn import Embedding, Linear, Parameter, QuantizedEmbedding, QuantizedLinear

        weights = self.state_dict()
        given = dict(model.named_parameters())
        unknown = sorted(weights.keys() - given.keys() - dict(model.named_parameters(remove_duplicate=False)).keys())
        if unknown:
            raise ArgumentError(f"load_into: the model has no parameter {unknown[0]!r}, which the file has")
        missing = sorted(given.keys() - weights.keys())
        if missing:
            raise ArgumentError(f"load_into: the file has no tensor for the parameter {missing[0]!r}")
        first: dict[int, str] = {}  # for tied parameters, the name used in the file
        made: dict[str, Parameter] = {}
        for path, parameter in list(model.named_parameters(remove_duplicate=False)):
            source = path if path in weights else first[id(parameter)]
            first.setdefault(id(parameter), source)
            weight = weights[source]
            if tuple(weight.shape) != tuple(parameter.shape):
                raise ArgumentError(f"load_into: {path!r} has the shape {tuple(parameter.shape)}, the file has {tuple(weight.shape)}")
            owner, _, name = path.rpartition(".")
            module = model.get_submodule(owner)
            plain = dtype or parameter.dtype
            if isinstance(weight, QuantizedTensor) and name == "weight" and type(module) in (Linear, Embedding):
                place, _, last = owner.rpartition(".")
                layer: Module
                if isinstance(module, Linear):
                    layer = QuantizedLinear.from_weight(weight, module.bias)
                else:
                    layer = QuantizedEmbedding.from_weight(weight, typing.cast(Embedding, module).padding_idx, plain)
                setattr(model.get_submodule(place), last, layer.train(module.training))
                continue
            if source not in made:
                value = weight.dequantize(plain) if isinstance(weight, QuantizedTensor) else weight.to(plain)
                made[source] = Parameter(value, requires_grad=False)
            module._parameters[name] = made[source]
