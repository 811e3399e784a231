"""Maps GGUF's names of tensors and settings to those of Hugging Face's classes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import flambeau as fb
from flambeau._files.problems import FileError, short
from flambeau.quantization import QuantizedTensor

Weight = fb.Tensor | QuantizedTensor


class Family(NamedTuple):
    """How the models of one architecture differ."""

    model_type: str  # Hugging Face's name
    tensors: dict[str, str]  # within a layer
    outside: dict[str, str] = {}
    permuted: bool = False  # rows of q and k are permuted to pairs
    shifted: bool = False  # norms have 1 added
    settings: dict[str, str] = {}


_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LLAMA = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
}  # fmt: skip
_GEMMA2 = _LLAMA | {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_PHI2 = _LLAMA | {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
_PHI3 = _LLAMA | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
_SETTINGS = {
    "block_count": "num_hidden_layers", "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "context_length": "max_position_embeddings", "rope.freq_base": "rope_theta", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.sliding_window": "sliding_window",
}  # fmt: skip
_CAPS = {"final_logit_softcapping": "final_logit_softcapping", "attn_logit_softcapping": "attn_logit_softcapping"}

FAMILIES = {
    "llama": Family("llama", _LLAMA, permuted=True),
    "qwen2": Family("qwen2", _LLAMA),
    "qwen3": Family("qwen3", _LLAMA),
    "gemma": Family("gemma", _LLAMA, shifted=True),
    "gemma2": Family("gemma2", _GEMMA2, shifted=True, settings=_CAPS),
    "gemma3": Family("gemma3_text", _GEMMA2, shifted=True),
    "phi2": Family(
        "phi", _PHI2, {"output_norm": "model.final_layernorm"}, settings={"attention.layer_norm_epsilon": "layer_norm_eps"}
    ),
    "phi3": Family("phi3", _PHI3),
}
FAMILIES["mistral"] = FAMILIES["llama"]._replace(model_type="mistral")
_LEFT_OUT = re.compile(r"rope_freqs|rope_factors_(long|short)|(blk\.\d+\.)?attn_rot_embd")


def family(metadata: dict[str, Any]) -> tuple[str, Family]:
    """The architecture of a file, and its mapping."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in FAMILIES:
        raise FileError(f"GGUF: names of the architecture {short(name)} are not known; expected one of {', '.join(FAMILIES)}")
    return name, FAMILIES[name]


def _setting(metadata: dict[str, Any], key: str, positive: bool = True) -> int:
    value = metadata.get(key)
    if isinstance(value, list) and value and all(one == value[0] for one in value):  # one number per layer
        value = value[0]
    if type(value) is not int or positive and value < 1:
        raise FileError(f"GGUF: the field {key} is {short(value)}; expected a positive number")
    return value


def renamed(name: str, metadata: dict[str, Any]) -> str | None:
    """The name in a Hugging Face model; None if the tensor is not a weight there."""
    _, known = family(metadata)
    stem, dot, kind = name.rpartition(".")
    if _LEFT_OUT.fullmatch(stem):
        return None
    outside = (_OUTSIDE | known.outside).get(stem)
    if outside is not None:
        return f"{outside}.{kind}"
    layer = re.fullmatch(r"blk\.(\d{1,9})\.(\w+)", stem)
    if layer is None or layer[2] not in known.tensors:
        raise FileError(f"GGUF: the tensor {short(name)} has no place in a model of the type {known.model_type}")
    return f"model.layers.{layer[1]}.{known.tensors[layer[2]]}.{kind}"


def arranged(name: str, weight: Weight, metadata: dict[str, Any]) -> Weight:
    """The weight as the model expects it: rows of q and k permuted, norms less one."""
    architecture, known = family(metadata)
    part = name.split(".")[-2]
    if known.permuted and part in ("attn_q", "attn_k"):
        heads = _setting(metadata, f"{architecture}.attention.head_count")
        if part == "attn_k" and f"{architecture}.attention.head_count_kv" in metadata:
            heads = _setting(metadata, f"{architecture}.attention.head_count_kv")
        rows = weight.shape[0]
        if rows % (2 * heads):
            raise FileError(f"GGUF: the tensor {short(name)} has {rows} rows, which {heads} heads cannot share")
        return weight[fb.arange(rows).reshape(heads, rows // heads // 2, 2).transpose(1, 2).reshape(-1)]
    if known.shifted and part.endswith("norm"):
        return (weight.dequantize() if isinstance(weight, QuantizedTensor) else weight) - 1
    return weight


def config(metadata: dict[str, Any], tensors: dict[str, Weight]) -> dict[str, Any]:
    """Arguments of the model's configuration class."""
    architecture, known = family(metadata)
    found: dict[str, Any] = {"model_type": known.model_type}
    for key, name in (_SETTINGS | known.settings).items():
        value = metadata.get(f"{architecture}.{key}")
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            value = value[0]
        if value is not None:
            found[name] = value
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    rotated = metadata.get(f"{architecture}.rope.dimension_count")
    if known.model_type == "phi" and type(heads) is int and heads and type(hidden) is int and type(rotated) is int:
        found["partial_rotary_factor"] = rotated / (hidden // heads)
    found.setdefault("num_key_value_heads", heads)
    if "token_embd.weight" in tensors:
        found["vocab_size"] = tensors["token_embd.weight"].shape[0]
    found["tie_word_embeddings"] = "output.weight" not in tensors
    for key, name in {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}.items():
        value = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if value is not None:
            found[name] = value
    return found
