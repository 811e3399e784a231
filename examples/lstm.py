"""An LSTM that reads a noisy wave and then forecasts it many points ahead.

    python examples/lstm.py --horizon 60

Every wave is a tone of random pitch and phase with an overtone of random strength, and noise on top. The network
reads it point by point; from there on it reads only its own predictions. It learns in two stages: first to predict the
next point of what it reads, then, in the last third of training, to forecast ever farther from its own predictions, so
that it learns to cope with their errors.

The metric is the root mean squared error of forecasts of 200 new waves, compared with two forecasts that need no
learning: repeating the last point, and repeating the past with the period that fitted best. It writes to examples/out:
lstm_curve.png (learning curve, and error by points ahead), lstm_forecast.png (forecasts beside the truth) and
lstm.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F

NOISE = 0.05


def make_waves(count, length):
    """Waves of shape (count, length), each a tone and its overtone: as observed, and without the noise."""
    pitch = fb.empty(count, 1).uniform_(0.15, 0.5)
    phase = fb.empty(2, count, 1).uniform_(0, 2 * fb.pi)
    share = fb.empty(count, 1).uniform_(0, 0.5)
    angle = pitch * fb.arange(length)
    clean = (1 - share) * fb.sin(angle + phase[0]) + share * fb.sin(2 * angle + phase[1])
    return clean + NOISE * fb.randn(count, length), clean


class Forecaster(nn.Module):
    def __init__(self, hidden=64, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, waves, state=None):
        """The predicted next point after every point (the network predicts the change), and the LSTM's state at the end."""
        output, state = self.lstm(waves.unsqueeze(2), state)
        return waves + self.head(output).squeeze(2), state

    def forecast(self, waves, steps):
        """Next points while reading the waves, and `steps` points after them, each predicted from the predictions before."""
        read, state = self(waves)
        points = [read[:, -1:]]
        for _ in range(steps - 1):
            point, state = self(points[-1], state)
            points.append(point)
        return read, fb.cat(points, dim=1)


def stand_still(waves, steps):
    """The forecast that repeats the last point."""
    return waves[:, -1:].expand(-1, steps)


def repeat_past(waves, steps, shortest=8):
    """The forecast that repeats each wave with the period that fits its past best."""
    length = waves.shape[1]
    misfits = [(waves[:, lag:] - waves[:, :-lag]).square().mean(1) for lag in range(shortest, length // 2 + 1)]
    period = fb.stack(misfits).argmin(0).unsqueeze(1) + shortest
    return waves.gather(1, length - period + fb.arange(steps) % period)


def draw_curve(path, losses, errors):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(range(1, len(losses) + 1), losses)
    left.set_xlabel("step")
    left.set_ylabel("mean squared error in training")
    left.set_title("Next points, then forecasts that grow longer")
    for name, error in errors.items():
        right.plot(range(1, len(error) + 1), error, label=name)
    right.set_ylim(bottom=0)
    right.set_xlabel("points ahead")
    right.set_ylabel("root mean squared error")
    right.set_title("200 new waves")
    right.legend()
    figure.savefig(path, dpi=100)


def draw_forecasts(path, waves, clean, forecasts, seen):
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplots(len(waves), 1, sharex=True)
    for axis, wave, truth, forecast in zip(axes, waves, clean, forecasts, strict=True):
        axis.plot(wave[:seen], ".", color="black", markersize=3, label="what it reads")
        axis.plot(truth, color="silver", linewidth=3, label="truth")
        axis.plot(range(seen, len(truth)), forecast, color="tab:red", label="forecast")
        axis.axvline(seen - 0.5, color="black", linewidth=0.8)
        axis.set_ylim(-1.3, 1.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("Waves the network has not seen: it reads up to the line, then goes on alone")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=900, help="training steps (default 900)")
    parser.add_argument("--batch-size", type=int, default=32, help="waves per step (default 32)")
    parser.add_argument("--length", type=int, default=80, help="points the network reads (default 80)")
    parser.add_argument("--horizon", type=int, default=60, help="points to forecast (default 60)")
    parser.add_argument("--lr", type=float, default=5e-3, help="highest learning rate (default 0.005)")
    parser.add_argument("--seed", type=int, default=0, help="seed of waves and weights (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if min(args.steps, args.horizon, args.batch_size) < 1 or args.length < 16:
        parser.error("--steps, --horizon and --batch-size must be at least 1 and --length at least 16")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    model = Forecaster()
    optimizer = fb.optim.Adam(model.parameters())
    scheduler = fb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.2)
    losses = []
    progress = tqdm(range(args.steps), desc="lstm", unit="step")
    for step in progress:
        # 1 for two thirds of the steps, then growing to the whole horizon half-way through the last third.
        ahead = 1 + max(0, min(args.horizon - 1, args.horizon * (6 * step - 4 * args.steps) // args.steps))
        total = args.length + args.horizon
        waves, clean = make_waves(args.batch_size, total)
        read, forecast = model.forecast(waves[:, : total - ahead], ahead)
        loss = F.mse_loss(fb.cat([read, forecast[:, 1:]], dim=1), clean[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.5f}", ahead=ahead)

    waves, clean = make_waves(200, args.length + args.horizon)
    seen, truth = waves[:, : args.length], clean[:, args.length :]
    with fb.no_grad():
        _, forecasts = model.forecast(seen, args.horizon)
    candidates = {
        "LSTM": forecasts,
        "repeating the past": repeat_past(seen, args.horizon),
        "standing still": stand_still(seen, args.horizon),
    }
    errors = {name: (given - truth).square().mean(0).sqrt() for name, given in candidates.items()}
    overall = {name: error.square().mean().sqrt().item() for name, error in errors.items()}

    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"lstm{end}" for end in ("_curve.png", "_forecast.png", ".pt"))
    draw_curve(curve, losses, errors)
    draw_forecasts(picture, waves[:4], clean[:4], forecasts[:4], args.length)
    fb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": args.steps}, checkpoint)
    print(f"error of forecasts of {args.horizon} points: " + ", ".join(f"{n} {e:.3f}" for n, e in overall.items())
          + f"; {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
