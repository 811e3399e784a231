"""An op of your own on every device: a kernel, its gradient, and a formula, used to sharpen a blurred picture.

    python examples/custom_kernel.py --device sim

Heat that spreads through a plate blurs it. `spread` is one step of that, written as a kernel: C that runs once for each
pixel, on the CPU as on accelerators. Its gradient is the same kernel, since heat flows back the way it came. `distance`
is a formula, which becomes a kernel with a gradient by itself. With both, gradient descent finds the picture that was
there before. It writes to examples/out: custom_kernel.png (before, blurred, found), custom_kernel_curve.png (learning
curve) and custom_kernel.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb

# Each pixel comes closer to its four neighbours. At the edge a pixel is its own neighbour: no heat leaves the plate.
spread: fb.accelerator.Kernel = fb.accelerator.kernel(
    "spread(Tensor x, float rate=0.2) -> Tensor",
    """
    const ix height = g.x_shape[0], width = g.x_shape[1];
    const ix row = item / width, column = item - row * width;
    const T here = LOAD_x(item);
    const T above = row > 0 ? LOAD_x(item - width) : here;
    const T below = row < height - 1 ? LOAD_x(item + width) : here;
    const T left = column > 0 ? LOAD_x(item - 1) : here;
    const T right = column < width - 1 ? LOAD_x(item + 1) : here;
    STORE_out(item, here + g.rate * (above + below + left + right - 4 * here));
    """,
    gradient=lambda grad, rate: spread(grad, rate),
)

# A distance that grows like the square near 0 and like the absolute value far away.
distance = fb.accelerator.formula("distance(x, y, width=0.01) = sqrt((x - y) * (x - y) + width * width) - width")


def blur(picture, steps):
    for _ in range(steps):
        picture = spread(picture)
    return picture


def check(device):
    """First and second derivatives against finite differences, in double precision."""
    x = fb.rand(4, 5, dtype=fb.float64, device=device, requires_grad=True)
    y = fb.rand(5, dtype=fb.float64, device=device, requires_grad=True)
    kernel = fb.autograd.gradcheck(lambda x: spread(x, 0.1), x) and fb.autograd.gradgradcheck(lambda x: spread(x, 0.1) ** 2, x)
    return kernel and fb.autograd.gradcheck(lambda x, y: distance(x, y, width=0.5), (x, y))


def draw_plate(size):
    """Rings and bars: a picture with edges."""
    rows, columns = fb.meshgrid(fb.linspace(-1, 1, size), fb.linspace(-1, 1, size), indexing="ij")
    radius = (rows**2 + columns**2).sqrt()
    rings = ((radius * 6).sin() > 0) & (radius < 0.9)
    bars = ((columns * 12).sin() > 0.3) & (rows.abs() < 0.18)
    return (rings ^ bars).float()


def save_pictures(path, pictures):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(3 * len(pictures), 3.2), layout="constrained")
    for axis, (name, picture) in zip(figure.subplots(1, len(pictures)), pictures.items(), strict=True):
        axis.imshow(picture.detach().cpu(), cmap="inferno", vmin=0, vmax=1)
        axis.set_title(name)
        axis.axis("off")
    figure.savefig(path, dpi=100)


def save_curve(path, losses):
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.semilogy(range(1, len(losses) + 1), losses)
    axis.set_xlabel("step")
    axis.set_ylabel("distance from the blurred picture")
    axis.set_title("Sharpening a picture through a kernel of our own")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, sim, opencl, cuda or gpu (default cpu)")
    parser.add_argument("--size", type=int, default=64, help="rows and columns of the picture (default 64)")
    parser.add_argument("--blur", type=int, default=12, help="steps of heat (default 12)")
    parser.add_argument("--steps", type=int, default=200, help="steps of Adam (default 200)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (default 0.05)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.size < 8 or args.blur < 1 or args.steps < 1:
        parser.error("--size must be at least 8; --blur and --steps must be at least 1")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    print(f"gradients on {args.device}: {'right' if check(args.device) else 'wrong'}")
    truth = draw_plate(args.size).to(args.device)
    seen = blur(truth, args.blur) + 0.002 * fb.randn(truth.shape, device=args.device)

    found = seen.clone().requires_grad_()
    optimizer = fb.optim.Adam([found], lr=args.lr)
    losses = []
    for _ in (progress := tqdm(range(args.steps), desc="custom kernel", unit="step")):
        loss = distance(blur(found, args.blur), seen).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with fb.no_grad():
            found.clamp_(0, 1)
        losses.append(loss.item())
        progress.set_postfix(distance=f"{losses[-1]:.5f}")

    before, after = ((picture - truth).abs().mean().item() for picture in (seen, found))
    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"custom_kernel{end}" for end in ("_curve.png", ".png", ".pt"))
    save_curve(curve, losses)
    save_pictures(picture, {"before": truth, "blurred": seen, "found": found})
    fb.save({"picture": found.detach().cpu(), "step": args.steps}, checkpoint)
    print(f"error per pixel {before:.3f} blurred, {after:.3f} found; {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
