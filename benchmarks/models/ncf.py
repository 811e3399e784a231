"""NeuMF: He et al., "Neural collaborative filtering" (2017), with as many users and films as MovieLens 20M has."""

from __future__ import annotations

from typing import Any

TITLE = "NCF"
ITEMS = "samples"
FULL = {"samples": 4096, "users": 138_493, "films": 26_744, "factors": 64, "layers": (256, 256, 128, 64)}
SMALL = {"samples": 256, "users": 1000, "films": 500, "factors": 8, "layers": (32, 16)}


def batch(rng: Any, samples: int, users: int, films: int, factors: int, layers: tuple[int, ...]) -> tuple[Any, ...]:
    """Who, what, and whether they liked it."""
    liked = rng.integers(0, 2, samples).astype("float32")
    return rng.integers(0, users, samples), rng.integers(0, films, samples), liked


def items(samples: int, users: int, films: int, factors: int, layers: tuple[int, ...]) -> int:
    return samples


def build(lib: Any, samples: int, users: int, films: int, factors: int, layers: tuple[int, ...]) -> Any:
    nn = lib.nn

    class Net(nn.Module):
        """A product of factors beside a perceptron on the two embeddings; one number from both."""

        def __init__(self):
            super().__init__()
            self.user_factors, self.film_factors = nn.Embedding(users, factors), nn.Embedding(films, factors)
            self.user_features = nn.Embedding(users, layers[0] // 2)
            self.film_features = nn.Embedding(films, layers[0] // 2)
            steps = []
            for inputs, outputs in zip(layers[:-1], layers[1:], strict=True):
                steps += [nn.Linear(inputs, outputs), nn.ReLU()]
            self.perceptron = nn.Sequential(*steps)
            self.head = nn.Linear(factors + layers[-1], 1)

        def forward(self, user, film):
            product = self.user_factors(user) * self.film_factors(film)
            deep = self.perceptron(lib.cat([self.user_features(user), self.film_features(film)], dim=1))
            return self.head(lib.cat([product, deep], dim=1)).squeeze(1)

    return Net()


def loss(lib: Any, output: Any, targets: tuple[Any, ...]) -> Any:
    return lib.nn.functional.binary_cross_entropy_with_logits(output, *targets)


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.Adam(net.parameters(), lr=1e-3)
