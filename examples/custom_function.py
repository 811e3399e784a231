"""A function with a custom gradient: the orbit of a planet, fitted through Kepler's equation.

    python examples/custom_function.py --steps 300

Kepler's equation M = E - e sin(E) has no formula for E. The forward pass solves it by Newton's method, outside the
graph; the backward pass needs no iteration, because the implicit function theorem gives the gradient at the solution.
gradcheck compares it with finite differences, then gradient descent finds the orbit behind noisy measurements of a
star's speed. It writes to examples/out: custom_function_curve.png (learning curve), custom_function.png (the fit) and
custom_function.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F


class Kepler(fb.autograd.Function):
    """Solves M = E - e sin(E) for E; M is the mean anomaly, e the eccentricity (0 <= e < 1, of M's shape)."""

    @staticmethod
    def forward(ctx, mean_anomaly, eccentricity):
        solution = mean_anomaly + eccentricity * mean_anomaly.sin()
        for _ in range(50):
            error = solution - eccentricity * solution.sin() - mean_anomaly
            if error.abs().max() < 8 * fb.finfo(error.dtype).eps:
                break
            solution = solution - error / (1 - eccentricity * solution.cos())
        ctx.save_for_backward(solution, eccentricity)
        return solution

    @staticmethod
    def backward(ctx, grad):
        # From 0 = E - e sin(E) - M:  dE/dM = 1 / (1 - e cos(E)) and dE/de = sin(E) / (1 - e cos(E)).
        # Written in differentiable operations, so second derivatives work too.
        solution, eccentricity = ctx.saved_tensors
        to_mean = grad / (1 - eccentricity * solution.cos())
        return to_mean, to_mean * solution.sin()


def check():
    """First and second derivatives against finite differences, in double precision."""
    mean_anomaly = fb.linspace(-3, 3, 7, dtype=fb.float64, requires_grad=True)
    eccentricity = fb.linspace(0, 0.8, 7, dtype=fb.float64, requires_grad=True)
    first = fb.autograd.gradcheck(Kepler.apply, (mean_anomaly, eccentricity))
    second = fb.autograd.gradgradcheck(Kepler.apply, (mean_anomaly, eccentricity))
    return first and second


class Orbit(nn.Module):
    """The speed of a star towards us while a planet circles it once per unit of time."""

    def __init__(self, eccentricity, amplitude, direction, phase):
        super().__init__()
        # The sigmoid keeps the eccentricity between 0 and 1 whatever the parameter does.
        self.raw_eccentricity = nn.Parameter(fb.tensor(eccentricity).logit())
        self.amplitude = nn.Parameter(fb.tensor(amplitude))
        self.direction = nn.Parameter(fb.tensor(direction))
        self.phase = nn.Parameter(fb.tensor(phase))

    @property
    def eccentricity(self):
        return self.raw_eccentricity.sigmoid()

    def forward(self, times):
        e = self.eccentricity
        mean_anomaly = 2 * fb.pi * times + self.phase
        anomaly = Kepler.apply(mean_anomaly, e.expand_as(mean_anomaly))
        angle = 2 * fb.atan2((1 + e).sqrt() * (anomaly / 2).sin(), (1 - e).sqrt() * (anomaly / 2).cos())
        return self.amplitude * ((angle + self.direction).cos() + e * self.direction.cos())


def draw_curve(path, losses):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.semilogy(range(1, len(losses) + 1), losses)
    axis.set_xlabel("step")
    axis.set_ylabel("mean squared error")
    axis.set_title("Fitting an orbit through Kepler's equation")
    figure.savefig(path, dpi=100)


@fb.no_grad()
def draw_fit(path, times, speeds, curves):
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axis = figure.subplots()
    axis.plot(times, speeds, "k.", label="measured")
    fine = fb.linspace(0, 2, 400)
    for name, (orbit, style) in curves.items():
        axis.plot(fine, orbit(fine), style, label=f"{name}, e = {orbit.eccentricity.item():.2f}")
    axis.set_xlabel("time, orbits")
    axis.set_ylabel("speed of the star")
    axis.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="steps of Adam (default 300)")
    parser.add_argument("--measurements", type=int, default=80, help="points to fit (default 80)")
    parser.add_argument("--noise", type=float, default=0.1, help="error of a measurement (default 0.1)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (default 0.05)")
    parser.add_argument("--seed", type=int, default=0, help="seed of times and noise (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.steps < 1 or args.measurements < 5:
        parser.error("--steps must be at least 1 and --measurements at least 5")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    print(f"gradcheck and gradgradcheck of Kepler's equation: {'passed' if check() else 'failed'}")

    truth = Orbit(eccentricity=0.6, amplitude=1.5, direction=0.8, phase=0.5)
    times = 2 * fb.rand(args.measurements)
    with fb.no_grad():
        speeds = truth(times) + args.noise * fb.randn(args.measurements)

    begin = {"eccentricity": 0.1, "amplitude": 1.0, "direction": 0.0, "phase": 0.0}
    orbit = Orbit(**begin)
    optimizer = fb.optim.Adam(orbit.parameters(), lr=args.lr)
    losses = []
    progress = tqdm(range(args.steps), desc="custom function", unit="step")
    for _ in progress:
        loss = F.mse_loss(orbit(times), speeds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.set_postfix(error=f"{losses[-1]:.4f}", eccentricity=f"{orbit.eccentricity.item():.3f}")

    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"custom_function{end}" for end in ("_curve.png", ".png", ".pt"))
    draw_curve(curve, losses)
    draw_fit(picture, times, speeds, {"start": (Orbit(**begin), ":"), "truth": (truth, "--"), "fit": (orbit, "-")})
    fb.save({"model": orbit.state_dict(), "optimizer": optimizer.state_dict(), "step": args.steps}, checkpoint)
    print(f"eccentricity {orbit.eccentricity.item():.3f} (truth {truth.eccentricity.item():.3f}), amplitude "
          f"{orbit.amplitude.item():.3f} (truth {truth.amplitude.item():.3f}), error {losses[-1] ** 0.5:.3f} "
          f"(noise {args.noise}); {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
