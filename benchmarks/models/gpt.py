"""GPT-2 small: Radford et al., "Language models are unsupervised multitask learners" (2019); 12 blocks of width 768."""

from __future__ import annotations

from typing import Any

TITLE = "GPT-2 small"
ITEMS = "tokens"
FULL = {"texts": 2, "length": 128, "words": 50_257, "width": 768, "heads": 12, "blocks": 12}
SMALL = {"texts": 2, "length": 16, "words": 300, "width": 64, "heads": 4, "blocks": 2}
CLIP = 1.0


def batch(rng: Any, texts: int, length: int, words: int, **_: int) -> tuple[Any, ...]:
    """Tokens and, for each, the one that follows it."""
    tokens = rng.integers(0, words, (texts, length + 1))
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def items(texts: int, length: int, **_: int) -> int:
    return texts * length


def build(lib: Any, texts: int, length: int, words: int, width: int, heads: int, blocks: int) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (part.view(n, t, heads, -1).transpose(1, 2) for part in self.project(x).split(width, dim=2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.merge(y.transpose(1, 2).reshape(n, t, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(width), Attention()
            self.norm2 = nn.LayerNorm(width)
            self.wide = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
            )

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.wide(self.norm2(x))

    class Net(nn.Module):
        """The same matrix turns tokens into vectors and vectors into scores."""

        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(blocks)])
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1]))
            return functional.linear(self.norm(self.blocks(x)), self.tokens.weight)

    return Net()


def loss(lib: Any, output: Any, targets: tuple[Any, ...]) -> Any:
    return lib.nn.functional.cross_entropy(output.flatten(0, 1), targets[0].flatten())


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.AdamW(net.parameters(), lr=3e-4)
