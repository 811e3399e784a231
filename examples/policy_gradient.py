"""Policy gradient: a network learns to balance a pole on a cart by trial and error.

    python examples/policy_gradient.py --updates 60

The method is REINFORCE with a learned baseline. The cart-pole is written below with tensors, so many carts run side by
side. It writes to examples/out: policy_gradient_curve.png (learning curve), policy_gradient.png (runs of the
untrained and the trained policy) and policy_gradient.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F

GRAVITY, CART_MASS, POLE_MASS, HALF_POLE, FORCE, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST = 2.4, 0.21  # metres from the middle, radians from upright: beyond, the run is over


def start_carts(count):
    """Position, speed, angle and angular speed of each cart, all close to zero."""
    return fb.empty(count, 4).uniform_(-0.05, 0.05)


def push(states, actions):
    """All carts one tick later; action 1 pushes to the right, 0 to the left."""
    position, speed, angle, spin = states.unbind(1)
    force = FORCE * (2.0 * actions - 1.0)
    sine, cosine = angle.sin(), angle.cos()
    mass = CART_MASS + POLE_MASS
    pull = (force + POLE_MASS * HALF_POLE * spin**2 * sine) / mass
    twist = (GRAVITY * sine - cosine * pull) / (HALF_POLE * (4 / 3 - POLE_MASS * cosine**2 / mass))
    acceleration = pull - POLE_MASS * HALF_POLE * twist * cosine / mass
    return fb.stack(
        [position + TICK * speed, speed + TICK * acceleration, angle + TICK * spin, spin + TICK * twist], dim=1
    )


def fallen(states):
    return (states[:, 0].abs() > FARTHEST) | (states[:, 2].abs() > STEEPEST)


@fb.no_grad()
def run(policy, carts, ticks):
    """Runs carts until they fall or time is up. Returns states (ticks, carts, 4), actions and which carts were still running."""
    states, seen, chosen, running = start_carts(carts), [], [], []
    alive = fb.ones(carts, dtype=fb.bool)
    for _ in range(ticks):
        actions = fb.multinomial(policy(states).softmax(1), 1).squeeze(1)
        seen.append(states)
        chosen.append(actions)
        running.append(alive)
        # A fallen cart stays where it fell.
        states = fb.where(alive.unsqueeze(1), push(states, actions), states)
        alive = alive & ~fallen(states)
        if not alive.any():
            break
    return fb.stack(seen), fb.stack(chosen), fb.stack(running)


def returns_to_go(running, discount):
    """The discounted number of ticks each cart will still run, from every tick on."""
    returns = fb.zeros(running.shape)
    following = fb.zeros(running.shape[1])
    for tick in reversed(range(len(running))):
        following = running[tick] * (1 + discount * following)
        returns[tick] = following
    return returns


def network(outputs):
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def draw_curve(path, lengths, ticks):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot(range(1, len(lengths) + 1), lengths)
    axis.axhline(ticks, color="gray", linestyle=":")
    axis.set_xlabel("update")
    axis.set_ylabel("ticks until the pole falls, mean")
    axis.set_title(f"REINFORCE on the cart-pole (at most {ticks} ticks)")
    figure.savefig(path, dpi=100)


def draw_runs(path, before, after):
    figure = Figure(figsize=(12, 5), layout="constrained")
    for column, (title, (states, _, running)) in enumerate({"untrained": before, "trained": after}.items()):
        for row, (name, part, limit) in enumerate([("position, m", 0, FARTHEST), ("angle, rad", 2, STEEPEST)]):
            axis = figure.add_subplot(2, 2, 2 * row + column + 1)
            for cart in range(states.shape[1]):
                axis.plot(states[: int(running[:, cart].sum()), cart, part], linewidth=1)
            axis.axhline(limit, color="red", linewidth=0.8)
            axis.axhline(-limit, color="red", linewidth=0.8)
            axis.set_ylabel(name)
            axis.set_title(title if row == 0 else "")
        axis.set_xlabel("tick")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=60, help="improvements of the policy (default 60)")
    parser.add_argument("--carts", type=int, default=32, help="carts per update (default 32)")
    parser.add_argument("--ticks", type=int, default=200, help="longest run (default 200)")
    parser.add_argument("--discount", type=float, default=0.98, help="worth of a later tick (default 0.98)")
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate of Adam (default 0.01)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, starts and actions (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.updates < 1 or args.carts < 2 or args.ticks < 1:
        parser.error("--updates and --ticks must be at least 1 and --carts at least 2")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    policy, baseline = network(2), network(1)
    optimizer = fb.optim.Adam([*policy.parameters(), *baseline.parameters()], lr=args.lr)
    before = run(policy, 8, args.ticks)

    lengths = []
    progress = tqdm(range(args.updates), desc="policy gradient", unit="update")
    for _ in progress:
        states, actions, running = run(policy, args.carts, args.ticks)
        returns = returns_to_go(running, args.discount)[running]
        states, actions = states[running], actions[running]

        # How much better it went than expected from there; scaled, so one learning rate fits short and long runs.
        expected = baseline(states).squeeze(1)
        advantage = (returns - expected).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        log_probability = policy(states).log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = -(log_probability * advantage).mean() + 0.5 * F.smooth_l1_loss(expected, returns)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*policy.parameters(), *baseline.parameters()], 1.0)
        optimizer.step()

        lengths.append(running.sum().item() / args.carts)
        progress.set_postfix(ticks=f"{lengths[-1]:.0f}")

    after = run(policy, 8, args.ticks)
    balanced = run(policy, 100, args.ticks)[2].sum(0).float()
    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"policy_gradient{end}" for end in ("_curve.png", ".png", ".pt"))
    draw_curve(curve, lengths, args.ticks)
    draw_runs(picture, before, after)
    fb.save({"policy": policy.state_dict(), "baseline": baseline.state_dict(), "optimizer": optimizer.state_dict()},
            checkpoint)
    print(f"the pole stays up {balanced.mean().item():.0f} of {args.ticks} ticks (100 new carts; before training "
          f"{lengths[0]:.0f}); {(balanced == args.ticks).sum()} of 100 never fall; {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
