"""Generates text from a GGUF file, or from a folder with safetensors files, and says how many tokens per second.

    python examples/generate.py model.gguf --prompt "Once upon a time"
    python examples/generate.py folder/ --format int4          # config.json, *.safetensors, tokenizer.json
    python examples/generate.py                                # trains a tiny model of its own first

Llama, Mistral, Qwen 2 and Qwen 3 models work. Weights of GGUF files are used as they are stored, from the file's map;
`--format` stores those of other files with 8 or 4 bits. The prompt is split by the longest tokens that fit, which is
close to what a model's own tokenizer does, but not always the same.
"""

import argparse
import json
import sysconfig
import time
from pathlib import Path

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.quantization import QuantizedTensor, quantize

KNOWN = ("llama", "mistral", "qwen2", "qwen3")


def linear(x, weight, bias=None):
    """x · weightᵀ + bias, whatever the weight is stored as."""
    return weight.linear(x, bias) if isinstance(weight, QuantizedTensor) else F.linear(x, weight, bias)


class Decoder:
    """A Llama-like model: its settings and weights under Hugging Face's names.

    Keys and values of past tokens are written into room that is there from the start: a step copies nothing of the
    past, and attention reads a view of what is filled.
    """

    def __init__(self, config, weights):
        if config["model_type"] not in KNOWN:
            raise SystemExit(f"models of the type {config['model_type']} are not known here; expected one of {', '.join(KNOWN)}")
        self.weights = weights
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.groups = config.get("num_key_value_heads") or self.heads
        self.width = config.get("head_dim") or config["hidden_size"] // self.heads
        self.epsilon = config.get("rms_norm_eps", 1e-6)
        base = config.get("rope_theta") or (config.get("rope_parameters") or {}).get("rope_theta", 10000.0)
        self.frequencies = base ** (-fb.arange(0, self.width, 2) / self.width)
        self.head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])  # tied where there is none
        self.keys, self.values = [], []

    def make_room(self, length):
        """Room for the keys and values of this many tokens."""
        shape = (1, self.groups, length, self.width)
        self.keys = [fb.empty(shape) for _ in range(self.layers)]
        self.values = [fb.empty(shape) for _ in range(self.layers)]

    def embed(self, tokens):
        table = self.weights["model.embed_tokens.weight"]
        return table.rows(tokens) if isinstance(table, QuantizedTensor) else F.embedding(tokens, table).float()

    def norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.epsilon)

    def project(self, x, name):
        return linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def forward(self, tokens, start=None):
        """Scores of the next token for every token of (batch, length); `start`: how many are in the room already."""
        x = self.embed(tokens)
        batch, length, _ = x.shape
        angles = fb.outer(fb.arange(length) + (start or 0), self.frequencies)
        cos, sin = angles.cos(), angles.sin()

        def heads(projected, count, norm):
            one = projected.view(batch, length, count, self.width)
            one = self.norm(one, norm) if f"{norm}.weight" in self.weights else one
            a, b = one.transpose(1, 2).chunk(2, -1)
            return fb.cat([a * cos - b * sin, b * cos + a * sin], -1)

        for i in range(self.layers):
            at = f"model.layers.{i}."
            y = self.norm(x, f"{at}input_layernorm")
            query = heads(self.project(y, f"{at}self_attn.q_proj"), self.heads, f"{at}self_attn.q_norm")
            key = heads(self.project(y, f"{at}self_attn.k_proj"), self.groups, f"{at}self_attn.k_norm")
            value = self.project(y, f"{at}self_attn.v_proj").view(batch, length, self.groups, self.width).transpose(1, 2)
            if start is not None:
                self.keys[i][:, :, start : start + length] = key
                self.values[i][:, :, start : start + length] = value
                key, value = self.keys[i][:, :, : start + length], self.values[i][:, :, : start + length]
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=length > 1, enable_gqa=True)
            x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, -1), f"{at}self_attn.o_proj")
            y = self.norm(x, f"{at}post_attention_layernorm")
            gated = F.silu(self.project(y, f"{at}mlp.gate_proj")) * self.project(y, f"{at}mlp.up_proj")
            x = x + self.project(gated, f"{at}mlp.down_proj")
        x = self.norm(x if start is None else x[:, -1:], "model.norm")
        return linear(x, self.head)


def sample(scores, temperature, top_k):
    """One token: the best one at temperature 0, else by chance among the best."""
    if temperature == 0:
        return scores.argmax(-1)
    best, tokens = scores.topk(min(top_k, scores.shape[-1]))
    return tokens.gather(-1, fb.multinomial((best / temperature).softmax(-1), 1)).squeeze(-1)


def generate(model, tokens, count, temperature=0.0, top_k=40, stop=None):
    """Yields up to `count` tokens that continue a list of tokens."""
    with fb.inference_mode():
        model.make_room(len(tokens) + count)
        given, start = fb.tensor([tokens]), 0
        for _ in range(count):
            token = sample(model.forward(given, start)[:, -1], temperature, top_k)
            start += given.shape[1]
            if token.item() == stop:
                return
            yield token.item()
            given = token.unsqueeze(0)


# ---- tokens --------------------------------------------------------------------------------------------------------------


class Vocabulary:
    """Tokens as bytes."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.numbers = {}
        for number, token in enumerate(tokens):
            self.numbers.setdefault(token, number)
        self.longest = max(map(len, tokens))

    @classmethod
    def of_texts(cls, texts, bytewise):
        """From a vocabulary as files have it: GPT-2's letters for bytes, or "▁" for spaces and <0x0A> for bytes."""
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        letters = {chr(byte): byte for byte in plain}
        letters |= {chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in set(plain))}

        def raw(text):
            if isinstance(text, bytes):
                return text
            if bytewise and all(letter in letters for letter in text):
                return bytes(letters[letter] for letter in text)
            if len(text) == 6 and text.startswith("<0x"):
                return bytes([int(text[3:5], 16)])
            return text.replace("▁", " ").encode()

        return cls([raw(text) for text in texts])

    def encode(self, text):
        data, at, found = text.encode(), 0, []
        while at < len(data):
            fits = (n for n in range(min(self.longest, len(data) - at), 0, -1) if data[at : at + n] in self.numbers)
            length = next(fits, 0)
            if not length:
                raise SystemExit(f"the model has no token for {data[at:at + 1]!r} in the prompt")
            found.append(self.numbers[data[at : at + length]])
            at += length
        return found

    def decode(self, numbers):
        return b"".join(self.tokens[number] for number in numbers).decode(errors="replace")


# ---- models --------------------------------------------------------------------------------------------------------------


def from_gguf(path):
    """Model, vocabulary, first and last token of a GGUF file."""
    file = fb.load(path)
    fields = file.tokenizer
    vocabulary = Vocabulary.of_texts(fields["tokens"], fields.get("model") == "gpt2")
    first = fields.get("bos_token_id") if fields.get("add_bos_token", fields.get("model") == "llama") else None
    return Decoder(file.config(), file.state_dict()), vocabulary, first, fields.get("eos_token_id")


def from_folder(folder, format):
    """The same from a folder as Hugging Face has it."""
    config = json.loads((folder / "config.json").read_text())
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= fb.load(path, mmap=True)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    numbers = tokenizer["model"]["vocab"] | {one["content"]: one["id"] for one in tokenizer.get("added_tokens", [])}
    texts = [""] * (max(numbers.values()) + 1)
    for text, number in numbers.items():
        texts[number] = text
    bytewise = "ByteLevel" in json.dumps(tokenizer.get("decoder"))
    first = None if config["model_type"].startswith("qwen") else config.get("bos_token_id")
    return Decoder(config, stored(weights, format)), Vocabulary.of_texts(texts, bytewise), first, config.get("eos_token_id")


def stored(weights, format):
    """Matrices in the wanted format; everything else, and everything without one, in float32."""

    def one(weight):
        if weight.ndim != 2 or format is None:
            return weight.float()
        return quantize(weight, format, next((n for n in (128, 64, 32) if weight.shape[1] % n == 0), None))

    return {name: one(weight) for name, weight in weights.items()}


def tiny(steps, format, width=96, layers=2):
    """A model of bytes that has seen a few pages of Python's library."""
    config = dict(model_type="llama", num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, hidden_size=width)
    half = width // 2
    shapes = {"input_layernorm": None, "post_attention_layernorm": None, "self_attn.q_proj": (width, width)}
    shapes |= {"self_attn.k_proj": (half, width), "self_attn.v_proj": (half, width), "self_attn.o_proj": (width, width)}
    shapes |= {"mlp.gate_proj": (2 * width, width), "mlp.up_proj": (2 * width, width), "mlp.down_proj": (width, 2 * width)}
    shapes = {f"model.layers.{i}.{name}.weight": shape for i in range(layers) for name, shape in shapes.items()}
    shapes |= {"model.embed_tokens.weight": (256, width), "model.norm.weight": None}
    weights = {name: fb.ones(width) if shape is None else 0.06 * fb.randn(shape) for name, shape in shapes.items()}
    text = "".join(path.read_text() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("a*.py")))
    data = fb.frombuffer(bytearray(text, "utf-8"), dtype=fb.uint8).long()
    model = Decoder(config, weights)
    parameters = [weight.requires_grad_() for weight in weights.values()]
    optimizer = fb.optim.AdamW(parameters, lr=3e-3)
    for step in range(steps):
        at = fb.randint(0, len(data) - 65, (16, 1)) + fb.arange(65)
        loss = F.cross_entropy(model.forward(data[at[:, :-1]]).flatten(0, 1), data[at[:, 1:]].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / steps)
    if steps:
        print(f"trained a tiny model: loss {loss.item():.2f}")
    weights = stored({name: weight.detach() for name, weight in weights.items()}, format)
    return Decoder(config, weights), Vocabulary([bytes([byte]) for byte in range(256)]), None, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="a GGUF file, or a folder with safetensors files")
    parser.add_argument("--prompt", default="def main(")
    parser.add_argument("--tokens", type=int, default=100, help="how many to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token each time")
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--format", choices=["int8", "int4"], help="how to store the weights of safetensors files and of the tiny model")
    parser.add_argument("--steps", type=int, default=200, help="training steps of the tiny model")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fb.manual_seed(options.seed)
    begin = time.perf_counter()
    if options.model is None:
        model, vocabulary, first, last = tiny(options.steps, options.format)
    elif options.model.is_dir():
        model, vocabulary, first, last = from_folder(options.model, options.format)
    else:
        model, vocabulary, first, last = from_gguf(options.model)
    prompt = ([] if first is None else [first]) + vocabulary.encode(options.prompt)
    if not prompt:
        raise SystemExit("the prompt is empty")
    ready = time.perf_counter()
    found, times = [], []
    for token in generate(model, prompt, options.tokens, options.temperature, options.top_k, last):
        found.append(token)
        times.append(time.perf_counter())
    print(options.prompt + vocabulary.decode(found))
    if len(times) > 1:
        rate = (len(times) - 1) / (times[-1] - times[0])
        print(f"model {ready - begin:.2f} s, first token {times[0] - ready:.3f} s, then {rate:.1f} tokens per second")


if __name__ == "__main__":
    main()
