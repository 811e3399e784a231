"""A small residual network on random colored shapes, with the usual learning-rate schedules."""

import argparse
from typing import Optional, Type

import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import lr_scheduler


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Optional[nn.Module] = None) -> None:
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: Type[BasicBlock], width: int, classes: int) -> None:
        super().__init__()
        self.inplanes = width
        self.conv1 = conv3x3(3, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = self._make_layer(block, width, 1)
        self.layer2 = self._make_layer(block, 2 * width, 1, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, classes)

    def _make_layer(self, block: Type[BasicBlock], planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        downsample = None
        if stride != 1 or self.inplanes != planes:
            shortcut = nn.Conv2d(self.inplanes, planes, 1, stride=stride, bias=False)
            downsample = nn.Sequential(shortcut, nn.BatchNorm2d(planes))
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers += [block(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def images(rng, count, size=16):
    """Squares, crosses and discs in noise."""
    label = rng.integers(0, 3, count)
    x = rng.normal(0, 0.3, (count, 3, size, size))
    i, j = np.mgrid[:size, :size] - size / 2 + 0.5
    shapes = [np.maximum(abs(i), abs(j)) < 5, (abs(i) < 2) | (abs(j) < 2), i * i + j * j < 30]
    x += np.stack([shapes[k] for k in label])[:, None] * rng.uniform(0.5, 1.0, (count, 3, 1, 1))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(label)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--scheduler", choices=["onecycle", "cosine", "plateau"], default="onecycle")
    args = parser.parse_args()

    rng = np.random.default_rng(6)
    model = ResNet(BasicBlock, args.width, 3)
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            fan_in = m.weight[0].numel()
            m.weight.data.copy_(torch.from_numpy(rng.normal(0, np.sqrt(2 / fan_in), tuple(m.weight.shape))))
        elif isinstance(m, _BatchNorm):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)
    nn.init.zeros_(model.fc.bias)
    norms = [p for m in model.modules() if isinstance(m, _BatchNorm) for p in m.parameters()]
    ids = {id(p) for p in norms}
    others = [p for p in model.parameters() if id(p) not in ids]
    optimizer = torch.optim.SGD(others, lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
    optimizer.add_param_group({"params": norms, "weight_decay": 0.0})
    if args.scheduler == "onecycle":
        scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=args.steps)
    elif args.scheduler == "cosine":
        scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    else:
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for step in range(args.steps):
        x, y = images(rng, args.batch)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(*([loss.item()] if args.scheduler == "plateau" else []))
        print(f"step {step:3d} loss {loss.item():.6f} lr {optimizer.param_groups[0]['lr']:.6f}")


if __name__ == "__main__":
    main()
