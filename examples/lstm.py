"""An LSTM that learns the rhythm of waves from examples and then continues a wave it has never seen.

    python examples/lstm.py --steps 500

Every wave is a sum of two sines of random pitch and phase. The network reads a wave point by point and predicts the
next point; to forecast, it reads its own predictions. It writes to examples/out: lstm_curve.png (learning curve),
lstm_forecast.png (forecasts beside the truth) and lstm.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F


def make_waves(count, length):
    """Waves of shape (count, length): two sines with random pitch, phase and share."""
    time_axis = fb.arange(length).float()
    pitch = fb.empty(count, 2, 1).uniform_(0.15, 0.6)
    phase = fb.empty(count, 2, 1).uniform_(0, 2 * fb.pi)
    share = fb.empty(count, 1).uniform_(0.3, 0.7)
    first, second = fb.sin(pitch * time_axis + phase).unbind(1)
    return share * first + (1 - share) * second


class Forecaster(nn.Module):
    def __init__(self, hidden=64, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, waves, state=None):
        """The predicted next point after every point, and the LSTM's state at the end."""
        # The network predicts the change: a smooth wave's next point is close to the one before.
        output, state = self.lstm(waves.unsqueeze(2), state)
        return waves + self.head(output).squeeze(2), state

    @fb.no_grad()
    def forecast(self, waves, steps):
        """Continues each wave by `steps` points, each one predicted from the predictions before."""
        predicted, state = self(waves)
        points = [predicted[:, -1:]]
        for _ in range(steps - 1):
            point, state = self(points[-1], state)
            points.append(point)
        return fb.cat(points, dim=1)


def draw_curve(path, losses):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.semilogy(range(1, len(losses) + 1), losses)
    axis.set_xlabel("step")
    axis.set_ylabel("mean squared error of the next point")
    axis.set_title("LSTM on waves")
    figure.savefig(path, dpi=100)


def draw_forecasts(path, waves, forecasts, seen):
    figure = Figure(figsize=(11, 8), layout="constrained")
    for axis, wave, forecast in zip(figure.subplots(4, 1, sharex=True), waves, forecasts, strict=True):
        axis.plot(wave, color="gray", label="truth")
        axis.plot(range(seen, len(wave)), forecast, color="tab:red", linestyle="--", label="forecast")
        axis.axvline(seen - 0.5, color="black", linewidth=0.8)
        axis.set_ylim(-1.3, 1.3)
    figure.axes[0].legend(loc="upper left")
    figure.suptitle("Waves the network has not seen: it reads up to the line, then goes on alone")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500, help="training steps (default 500)")
    parser.add_argument("--batch-size", type=int, default=32, help="waves per step (default 32)")
    parser.add_argument("--length", type=int, default=80, help="points of a wave in training (default 80)")
    parser.add_argument("--horizon", type=int, default=60, help="points to forecast (default 60)")
    parser.add_argument("--lr", type=float, default=1e-2, help="highest learning rate (default 0.01)")
    parser.add_argument("--seed", type=int, default=0, help="seed of waves and weights (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.steps < 1 or args.length < 2 or args.horizon < 1:
        parser.error("--steps and --horizon must be at least 1 and --length at least 2")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    model = Forecaster()
    optimizer = fb.optim.Adam(model.parameters())
    scheduler = fb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps)
    losses = []
    progress = tqdm(range(args.steps), desc="lstm", unit="step")
    for _ in progress:
        waves = make_waves(args.batch_size, args.length + 1)
        predicted, _ = model(waves[:, :-1])
        loss = F.mse_loss(predicted, waves[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.5f}")

    waves = make_waves(200, args.length + args.horizon)
    forecasts = model.forecast(waves[:, : args.length], args.horizon)
    truth = waves[:, args.length :]
    error = (forecasts - truth).square().mean().sqrt().item()
    standing_still = (waves[:, args.length - 1 : args.length] - truth).square().mean().sqrt().item()

    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"lstm{end}" for end in ("_curve.png", "_forecast.png", ".pt"))
    draw_curve(curve, losses)
    draw_forecasts(picture, waves[:4], forecasts[:4], args.length)
    fb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": args.steps}, checkpoint)
    print(f"next-point error {losses[-1] ** 0.5:.4f}; error over a forecast of {args.horizon} points {error:.3f} "
          f"(repeating the last point: {standing_still:.3f}); {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
