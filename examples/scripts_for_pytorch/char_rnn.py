"""An LSTM learns a short text by heart, character by character."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.nn.utils import clip_grad_norm_

TEXT = "a torch is a light one carries; it is held up in the dark and shows the way to those who follow. " * 8


class CharRNN(nn.Module):
    def __init__(self, symbols, hidden, layers=2):
        super().__init__()
        self.embed = nn.Embedding(symbols, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, symbols)

    def forward(self, x, state=None):
        out, state = self.rnn(self.embed(x), state)
        return self.head(out), state


def generate(model, symbols, start="a", length=60):
    model.eval()
    index = {c: i for i, c in enumerate(symbols)}
    text, state = start, None
    x = torch.tensor([[index[c] for c in start]])
    with torch.no_grad():
        for _ in range(length):
            logits, state = model(x, state)
            x = logits[:, -1:].argmax(-1)
            text += symbols[x.item()]
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()

    symbols = sorted(set(TEXT))
    data = torch.LongTensor([symbols.index(c) for c in TEXT])
    rng = np.random.default_rng(2)
    model = CharRNN(len(symbols), args.hidden)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(rng.uniform(-0.15, 0.15, tuple(p.size()))))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    for step in range(args.steps):
        starts = rng.integers(0, len(data) - args.length - 1, args.batch)
        x = Variable(torch.stack([data[s : s + args.length] for s in starts]))
        y = Variable(torch.stack([data[s + 1 : s + args.length + 1] for s in starts]))
        logits, _ = model(x)
        loss = criterion(logits.reshape(-1, len(symbols)), y.reshape(-1))
        model.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0 or step == args.steps - 1:
            print("step %3d loss %.6f norm %.5f" % (step, loss.item(), norm))
    print("text:", generate(model, symbols))


if __name__ == "__main__":
    main()
