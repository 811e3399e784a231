"""A program with types as users write them: strict type checkers accept it and infer what it asserts; it runs, too."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split


class Net(nn.Module):
    """A module with a buffer, a parameter and submodules of several kinds."""

    scale: fb.Tensor

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.last = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 3))
        self.shift = nn.Parameter(fb.zeros(3))
        self.register_buffer("scale", fb.ones(3))

    def forward(self, x: fb.Tensor) -> fb.Tensor:
        x = F.gelu(self.first(x))
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x) * self.scale + self.shift


class Split(nn.Module):
    """A call has the type of forward(), whatever that is."""

    def forward(self, x: fb.Tensor, at: int) -> tuple[fb.Tensor, fb.Tensor]:
        return x[:at], x[at:]


class Cube(fb.autograd.Function):
    """An op with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: fb.Tensor) -> fb.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: fb.Tensor) -> fb.Tensor:
        x: fb.Tensor = ctx.saved_tensors[0]
        return grad * 3 * x**2


class Squares(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index**2

    def __len__(self) -> int:
        return 10


class Letters(IterableDataset[str]):
    def __iter__(self) -> Iterator[str]:
        return iter("abc")


@fb.no_grad()
def accuracy(model: nn.Module, x: fb.Tensor, y: fb.Tensor) -> float:
    return float((model(x).argmax(1) == y).float().mean())


@fb.inference_mode()
def predict(model: Net, x: fb.Tensor) -> fb.Tensor:
    return model(x)


def tensors() -> None:
    x = fb.randn(4, 3, dtype=fb.float64, device="cpu")
    assert_type(x + 1, fb.Tensor)
    assert_type(2 * x @ x.mT, fb.Tensor)
    assert_type(x > 0, fb.Tensor)
    assert_type(x[0, :, None], fb.Tensor)
    assert_type(x.shape, fb.Size)
    assert_type(x.shape[0], int)
    assert_type(x.size(0), int)
    assert_type(x.dtype, fb.dtype)
    assert_type(x.device, fb.device)
    assert_type(x.grad, fb.Tensor | None)
    assert_type(float(x.sum()), float)
    assert_type(x.max(dim=1).values, fb.Tensor)
    assert_type(x.to(fb.float32).requires_grad_(), fb.Tensor)
    assert_type(fb.cat([x, x]), fb.Tensor)
    assert_type(fb.linalg.svd(x)[1], fb.Tensor)
    assert_type(fb.fft.fft(x), fb.Tensor)
    assert_type(fb.special.erf(x), fb.Tensor)
    assert_type(fb.float32, fb.dtype)
    assert_type(fb.device("cpu"), fb.device)
    assert_type([row for row in x], list[fb.Tensor])
    for row in x:
        assert_type(row, fb.Tensor)


def modules() -> None:
    model = Net().to("cpu").double().float().train()
    assert_type(model, Net)
    assert_type(model.eval(), Net)
    assert_type(model(fb.randn(5, 4)), fb.Tensor)
    assert_type(Split()(fb.ones(5), 2), tuple[fb.Tensor, fb.Tensor])
    assert_type(model.first.weight, nn.Parameter)
    assert_type(model.scale, fb.Tensor)
    assert_type(model.last[0], nn.Module)
    assert_type(model.last[1:], nn.Sequential)
    assert_type(model.last(fb.randn(5, 8)), fb.Tensor)
    assert_type(nn.Conv2d(3, 4, kernel_size=3, padding=1)(fb.zeros(1, 3, 8, 8)), fb.Tensor)
    assert_type(nn.CrossEntropyLoss()(fb.zeros(2, 3), fb.zeros(2, dtype=fb.long)), fb.Tensor)
    assert_type(dict(model.named_parameters()), dict[str, nn.Parameter])
    assert_type(next(model.modules()), nn.Module)
    assert_type(model.state_dict(), dict[str, Any])
    assert_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0), fb.Tensor)
    for module in model.last:
        assert_type(module, nn.Module)
    handle = model.register_forward_hook(lambda module, args, output: None)
    handle.remove()
    with tempfile.TemporaryDirectory() as folder:
        fb.save(model.state_dict(), Path(folder) / "model.pt")
        model.load_state_dict(fb.load(Path(folder) / "model.pt"))


def data() -> None:
    assert_type(DataLoader(Squares(), batch_size=4), DataLoader[int])
    assert_type(Squares()[3], int)
    assert_type(random_split(Squares(), [7, 3]), list[Subset[int]])
    assert_type(list(Letters()), list[str])
    pairs = TensorDataset(fb.ones(6, 4), fb.zeros(6))
    assert_type(pairs[0], tuple[fb.Tensor, ...])
    for x, y in DataLoader(pairs, batch_size=2, shuffle=True):
        fb.Tensor.add(x, y.unsqueeze(1))


def gradients() -> None:
    x = fb.ones(3, requires_grad=True)
    assert_type(fb.autograd.grad((x * x).sum(), x), tuple[fb.Tensor, ...])
    cubes: fb.Tensor = Cube.apply(x)
    cubes.sum().backward()
    with fb.enable_grad(), fb.set_grad_enabled(True), fb.autocast("cpu", dtype=fb.bfloat16):
        x.exp().sum().backward()

    def energy(v: fb.Tensor) -> fb.Tensor:
        return (v**2).sum()

    slope = fb.func.grad(energy)
    fb.vmap(slope)(fb.ones(2, 3))


def distributions() -> None:
    normal = fb.distributions.Normal(fb.zeros(3), 1.0)
    assert_type(normal.rsample((2,)), fb.Tensor)
    assert_type(normal.log_prob(fb.zeros(3)), fb.Tensor)
    assert_type(normal.mean, fb.Tensor)
    assert_type(fb.distributions.kl_divergence(normal, normal), fb.Tensor)
    assert_type(fb.distributions.Categorical(logits=fb.zeros(4)).entropy(), fb.Tensor)


def training() -> None:
    fb.manual_seed(0)
    model = Net()
    x = fb.randn(64, 4)
    y = x.argmax(1).clamp(max=2)
    optimizer = optim.AdamW([{"params": model.parameters(), "lr": 1e-2}], weight_decay=1e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    scaler = fb.amp.GradScaler("cpu", enabled=False)

    def closure() -> fb.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        return loss

    first = loss = assert_type(optimizer.step(closure), fb.Tensor)
    for _ in range(10):
        loss = closure()
        optimizer.step()
        scheduler.step()
    assert loss < first
    assert_type(scheduler.get_last_lr()[0], float | fb.Tensor)
    assert 0 <= accuracy(model, x, y) <= 1
    with fb.no_grad():
        assert_type(predict(model, x), fb.Tensor)


def main() -> None:
    for part in (tensors, modules, data, gradients, distributions, training):
        part()


if __name__ == "__main__":
    main()
