"""A convolutional network on the 8 x 8 digits of scikit-learn."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = self.dropout(torch.flatten(x, 1))
        return F.log_softmax(self.fc(x), dim=1)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0:
            print(f"epoch {epoch} batch {batch:3d} loss {loss.item():.6f}")


@torch.no_grad()
def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        output = model(data)
        loss += F.nll_loss(output, target, reduction="sum").item()
        pred = output.argmax(dim=1, keepdim=True)
        correct += pred.eq(target.view_as(pred)).sum().item()
    count = len(loader.dataset)
    print(f"test loss {loss / count:.6f} accuracy {correct / count:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--samples", type=int, default=1797)
    parser.add_argument("--log-interval", type=int, default=5)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    rng = np.random.default_rng(1)
    digits = load_digits()
    order = rng.permutation(len(digits.images))[: args.samples]
    images = torch.tensor(digits.images[order], dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.as_tensor(digits.target[order])
    cut = int(0.8 * len(order))
    train_loader = DataLoader(TensorDataset(images[:cut], labels[:cut]), batch_size=args.batch_size, drop_last=True)
    test_loader = DataLoader(TensorDataset(images[cut:], labels[cut:]), batch_size=256, shuffle=False)

    model = Net().to(device)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(p)
            p.data = torch.from_numpy(rng.normal(0, fan_in**-0.5, tuple(p.shape)).astype("float32")).to(device)
        elif "bias" in name:
            nn.init.zeros_(p)
    print("parameters", sum(p.numel() for p in model.parameters() if p.requires_grad))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(args.epochs):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()


if __name__ == "__main__":
    main()
