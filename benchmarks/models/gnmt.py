"""A translation model in the manner of GNMT: Wu et al., "Google's neural machine translation system" (2016).

Depth and wiring are those of its second version: four LSTM layers on each side, the first encoder layer in both
directions, residual connections from the third layer on, additive attention from the first decoder layer into all
others, label smoothing, gradient clipping. Width and vocabulary are smaller, so that a processor trains it: a batch
is 32 pairs of sentences of 25 tokens.
"""

from __future__ import annotations

from typing import Any

TITLE = "GNMT-like"
ITEMS = "tokens"
FULL = {"sentences": 32, "length": 25, "width": 256, "words": 8192}
SMALL = {"sentences": 4, "length": 7, "width": 32, "words": 500}
CLIP = 5.0
DROPOUT = 0.2


def batch(rng: Any, sentences: int, length: int, width: int, words: int) -> tuple[Any, ...]:
    """Source, target shifted right (what the decoder reads), target."""
    source, target = (rng.integers(1, words, (sentences, length)) for _ in range(2))
    shifted = target.copy()
    shifted[:, 0], shifted[:, 1:] = 0, target[:, :-1]
    return source, shifted, target


def items(sentences: int, length: int, width: int, words: int) -> int:
    return sentences * length


def build(lib: Any, sentences: int, length: int, width: int, words: int) -> Any:
    nn = lib.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.first = nn.LSTM(width, width, batch_first=True, bidirectional=True)
            self.second = nn.LSTM(2 * width, width, batch_first=True)
            self.residual = nn.ModuleList([nn.LSTM(width, width, batch_first=True) for _ in range(2)])
            self.dropout = nn.Dropout(DROPOUT)

        def forward(self, tokens):
            x, _ = self.first(self.dropout(self.embedding(tokens)))
            x, _ = self.second(self.dropout(x))
            for layer in self.residual:
                x = x + layer(self.dropout(x))[0]
            return x

    class Attention(nn.Module):
        """The mean of the memory, weighted by a score of every pair: v · tanh(query + key)."""

        def __init__(self):
            super().__init__()
            self.query = nn.Linear(width, width, bias=False)
            self.key = nn.Linear(width, width)
            self.score = nn.Linear(width, 1, bias=False)

        def forward(self, x, memory):
            pairs = lib.tanh(self.query(x).unsqueeze(2) + self.key(memory).unsqueeze(1))
            weights = lib.softmax(self.score(pairs).squeeze(-1), dim=-1)
            return lib.bmm(weights, memory)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.first = nn.LSTM(width, width, batch_first=True)
            self.attention = Attention()
            self.others = nn.ModuleList([nn.LSTM(2 * width, width, batch_first=True) for _ in range(3)])
            self.dropout = nn.Dropout(DROPOUT)
            self.head = nn.Linear(width, words)

        def forward(self, tokens, memory):
            x, _ = self.first(self.dropout(self.embedding(tokens)))
            context = self.attention(x, memory)
            for place, layer in enumerate(self.others):
                y, _ = layer(lib.cat([self.dropout(x), context], dim=2))
                x = y if place == 0 else x + y
            return self.head(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = Encoder(), Decoder()

        def forward(self, source, shifted):
            return self.decoder(shifted, self.encoder(source))

    return Net()


def loss(lib: Any, output: Any, targets: tuple[Any, ...]) -> Any:
    return lib.nn.functional.cross_entropy(output.flatten(0, 1), targets[0].flatten(), label_smoothing=0.1)


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.Adam(net.parameters(), lr=1e-3)
