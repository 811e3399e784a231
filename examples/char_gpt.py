"""A small GPT that learns to write Python, one character at a time, from the source of the standard library.

    python examples/char_gpt.py --prompt "def "

trains a transformer on the modules of the Python that runs it, then lets it generate text. It writes to examples/out:
char_gpt_curve.png (learning curve), char_gpt.txt (the generated text) and char_gpt.pt (checkpoint).
"""

import argparse
import math
import sysconfig
import time
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F

# Newline, then the printable ASCII characters; files with anything else are left out.
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


def encode(text):
    """Text to a tensor of character numbers."""
    codes = fb.frombuffer(bytearray(text, "ascii"), dtype=fb.uint8).long()
    return fb.where(codes == 10, 0, codes - 31)


def decode(numbers):
    """Character numbers back to text."""
    return "".join(CHARACTERS[i] for i in numbers.tolist())


def read_library():
    """The text of the standard library's modules, as one long string."""
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if set(text) <= set(CHARACTERS):
            texts.append(text)
    return "\n\n".join(texts)


class Block(nn.Module):
    """A convolution over the preceding characters, attention to all of them, and a small network; each is added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        # Spelling is local: a filter over four characters learns it at once, where attention must first find its neighbours.
        self.near = nn.Conv1d(width, width, 4, groups=width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        x = x + self.near(F.pad(x.transpose(1, 2), (3, 0))).transpose(1, 2)
        # (batch, length, 3 * width) to three tensors (batch, heads, length, width / heads)
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        heard = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(heard.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    def __init__(self, context, width, heads, layers):
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False)
        nn.init.normal_(self.characters.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        # Input and output share one table: the character that fits best is the one whose vector is closest.
        self.head.weight = self.characters.weight

    def forward(self, numbers):
        places = fb.arange(numbers.shape[1])
        return self.head(self.norm(self.blocks(self.characters(numbers) + self.positions(places))))

    @fb.no_grad()
    def write(self, prompt, length, temperature):
        """Continues the prompt by `length` characters, each sampled from the network's prediction."""
        self.eval()
        numbers = encode(prompt).unsqueeze(0)
        for _ in tqdm(range(length), desc="writing", unit="char", leave=False):
            logits = self(numbers[:, -self.context :])[:, -1] / temperature
            numbers = fb.cat([numbers, fb.multinomial(logits.softmax(-1), 1)], dim=1)
        return decode(numbers[0])


def draw_batch(text, batch_size, context):
    """Random pieces of the text, and the same pieces one character later."""
    start = fb.randint(0, len(text) - context, (batch_size, 1))
    pieces = text[start + fb.arange(context + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(model, batch):
    numbers, following = batch
    return F.cross_entropy(model(numbers).flatten(0, 1), following.flatten())


@fb.no_grad()
def evaluate(model, text, batch_size, batches=16):
    """Mean loss on held-out text."""
    model.eval()
    losses = [loss_of(model, draw_batch(text, batch_size, model.context)).item() for _ in range(batches)]
    model.train()
    return sum(losses) / len(losses)


def draw_curve(path, losses, tested):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot(range(1, len(losses) + 1), losses, alpha=0.5, label="training")
    axis.plot(*zip(*tested, strict=True), "o-", label="unseen text")
    axis.axhline(math.log(len(CHARACTERS)), color="gray", linestyle=":", label="guessing")
    axis.set_xlabel("step")
    axis.set_ylabel("loss per character")
    axis.set_title("Character GPT on the standard library")
    axis.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default 2000)")
    parser.add_argument("--batch-size", type=int, default=8, help="pieces of text per step (default 8)")
    parser.add_argument("--context", type=int, default=128, help="characters the network sees (default 128)")
    parser.add_argument("--width", type=int, default=128, help="size of a character's vector (default 128)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads (default 4)")
    parser.add_argument("--layers", type=int, default=3, help="transformer blocks (default 3)")
    parser.add_argument("--lr", type=float, default=4e-3, help="highest learning rate (default 0.004)")
    parser.add_argument("--prompt", default="def ", help='what the network continues (default "def ")')
    parser.add_argument("--length", type=int, default=800, help="characters to write (default 800)")
    parser.add_argument("--temperature", type=float, default=0.7, help="below 1: safer, above: wilder (default 0.7)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, batches and writing (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.steps < 1 or args.context < 1:
        parser.error("--steps and --context must be at least 1")
    if args.width % args.heads:
        parser.error("--width must be a multiple of --heads")
    if not args.prompt or not set(args.prompt) <= set(CHARACTERS):
        parser.error("--prompt must be made of ASCII characters, and not be empty")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    text = encode(read_library())
    train, test = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    model = CharGPT(args.context, args.width, args.heads, args.layers)
    optimizer = fb.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = fb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)
    print(f"{len(text) / 1e6:.1f} million characters, {sum(p.numel() for p in model.parameters()) / 1e6:.2f} million "
          f"parameters, {fb.get_num_threads()} thread(s)")

    losses, tested = [], []
    progress = tqdm(range(1, args.steps + 1), desc="training", unit="step")
    for step in progress:
        loss = loss_of(model, draw_batch(train, args.batch_size, args.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % 200 == 0 or step == args.steps:
            tested.append((step, evaluate(model, test, args.batch_size)))
        progress.set_postfix(loss=f"{losses[-1]:.3f}")
    seconds = time.perf_counter() - start

    args.output.mkdir(parents=True, exist_ok=True)
    curve, sample, checkpoint = (args.output / f"char_gpt{end}" for end in ("_curve.png", ".txt", ".pt"))
    fb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "options": vars(args) | {"output": None}},
            checkpoint)
    draw_curve(curve, losses, tested)
    written = model.write(args.prompt, args.length, args.temperature)
    sample.write_text(written + "\n")
    print(f"\n{written}\n")
    print(f"loss on unseen text {tested[-1][1]:.3f} per character (guessing: {math.log(len(CHARACTERS)):.3f}), "
          f"{args.steps / seconds:.1f} steps/s, {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {sample}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
