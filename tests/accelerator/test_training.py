"""Models train on a device to the CPU's losses, and no op of theirs falls back to the CPU."""

from __future__ import annotations

import pytest

import flambeau as fb
from flambeau import accelerator

DEVICE = fb.device("sim")
F, nn = fb.nn.functional, fb.nn


class Digits(nn.Module):
    """Two convolutions, pooling, dropout and two linear layers, as for images of digits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)
        )
        self.out = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))

    def forward(self, x):
        return self.out(self.features(x))

    @staticmethod
    def batch():
        return fb.randn(16, 1, 12, 12), fb.randint(10, (16,))

    @staticmethod
    def loss(output, target):
        return F.nll_loss(F.log_softmax(output, 1), target)


class Block(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = (
            nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), nn.Conv2d(16, 16, 3, padding=1, groups=16))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))

    @staticmethod
    def batch():
        return fb.randn(4, 3, 16, 16), fb.randint(5, (4,))

    loss = staticmethod(F.cross_entropy)


class CharGPT(nn.Module):
    """One transformer block over characters, with tied dropout and a causal mask."""

    vocabulary, length, width = 20, 12, 16

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(self.vocabulary, self.width), nn.Embedding(self.length, self.width)
        self.norms = nn.ModuleList(nn.LayerNorm(self.width) for _ in range(3))
        self.qkv, self.project = nn.Linear(self.width, 3 * self.width), nn.Linear(self.width, self.width)
        self.mlp = nn.Sequential(
            nn.Linear(self.width, 4 * self.width), nn.GELU(), nn.Linear(4 * self.width, self.width), nn.Dropout(0.1)
        )
        self.out = nn.Linear(self.width, self.vocabulary, bias=False)

    def forward(self, index):
        n, t = index.shape
        x = self.tokens(index) + self.places(fb.arange(t, device=index.device))
        q, k, v = (p.view(n, t, 2, -1).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(a.transpose(1, 2).reshape(n, t, -1))
        x = x + self.mlp(self.norms[1](x))
        return self.out(self.norms[2](x)).flatten(0, 1)

    @classmethod
    def batch(cls):
        text = fb.randint(cls.vocabulary, (4, cls.length + 1))
        return text[:, :-1], text[:, 1:].flatten()

    loss = staticmethod(F.cross_entropy)


class Recurrent(nn.Module):
    """Embedding, a two-layer LSTM, a GRU, a linear layer."""

    def __init__(self):
        super().__init__()
        self.tokens, self.lstm, self.gru = (
            nn.Embedding(12, 8),
            nn.LSTM(8, 10, 2, batch_first=True),
            nn.GRU(10, 6, batch_first=True),
        )
        self.out = nn.Linear(6, 12)

    def forward(self, index):
        return self.out(self.gru(self.lstm(self.tokens(index))[0])[0]).flatten(0, 1)

    @staticmethod
    def batch():
        text = fb.randint(12, (5, 8))
        return text[:, :-1], text[:, 1:].flatten()

    loss = staticmethod(F.cross_entropy)


OPTIMIZERS = {
    "sgd": lambda p: fb.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4),
    "adam": lambda p: fb.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: fb.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "rmsprop": lambda p: fb.optim.RMSprop(p, lr=1e-3, centered=True),
}


def train(model, optimizer, device, steps, mixed):
    fb.manual_seed(0)
    net, data = model(), [model.batch() for _ in range(2)]
    net.to(device)
    data = [(x.to(device), y.to(device)) for x, y in data]
    adapt = OPTIMIZERS[optimizer](net.parameters())
    schedule = fb.optim.lr_scheduler.CosineAnnealingLR(adapt, steps)
    fb.manual_seed(1)  # the numbers of dropout
    losses = []
    for step in range(steps):
        x, y = data[step % 2]
        adapt.zero_grad()
        with fb.autocast(fb.device(device).type, fb.bfloat16, enabled=mixed):
            loss = model.loss(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        adapt.step()
        schedule.step()
        losses.append(loss.item())
    net.eval()
    with fb.no_grad():
        losses.append(model.loss(net(x), y).item())
    return losses


@pytest.fixture
def strict():
    accelerator.reset_coverage()
    accelerator.set_strict(True)
    yield
    accelerator.set_strict(False)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("model", "optimizer"),
    [(Digits, "adam"), (ResNet, "sgd"), (CharGPT, "adamw"), (Recurrent, "rmsprop")],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_models_train_to_the_cpus_losses(model, optimizer):
    got, expected = (train(model, optimizer, device, 6, False) for device in (DEVICE, "cpu"))
    assert got == pytest.approx(expected, rel=2e-3), (got, expected)
    assert got[0] == pytest.approx(expected[0], rel=1e-5)
    counts = accelerator.coverage()
    assert sum(c.kernels for c in counts.values()) > 100 and not any(c.fallbacks for c in counts.values())


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("model", [Digits, CharGPT], ids=lambda v: v.__name__)
def test_models_train_in_mixed_precision(model):
    got, expected = (train(model, "adam", device, 4, True) for device in (DEVICE, "cpu"))
    assert got == pytest.approx(expected, rel=3e-2), (got, expected)


@pytest.mark.usefixtures("strict")
def test_a_training_loop_allocates_no_device_memory_after_its_first_steps():
    fb.manual_seed(0)
    net, (x, y) = ResNet().to(DEVICE), (t.to(DEVICE) for t in ResNet.batch())
    adapt = fb.optim.SGD(net.parameters(), lr=0.05)

    def step():
        adapt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        adapt.step()
        accelerator.synchronize(DEVICE)

    for _ in range(3):
        step()
    before = accelerator.memory_stats(DEVICE)["num_device_alloc"]
    for _ in range(5):
        step()
    assert accelerator.memory_stats(DEVICE)["num_device_alloc"] == before
