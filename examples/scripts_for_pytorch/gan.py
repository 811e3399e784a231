"""A generative adversarial network learns a ring of Gaussians."""

import argparse

import numpy as np
import torch
import torch.nn as nn


def mlp(sizes, out=None):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2, inplace=True)]
    layers.pop()
    if out is not None:
        layers.append(out)
    return nn.Sequential(*layers)


def weights_init(m, rng):
    if m.__class__.__name__.find("Linear") != -1:
        m.weight.data.copy_(torch.from_numpy(rng.normal(0.0, 0.2, tuple(m.weight.shape))))
        m.bias.data.fill_(0)


def real_batch(rng, size):
    k = rng.integers(0, 8, size)
    x = np.stack([np.cos(k * np.pi / 4), np.sin(k * np.pi / 4)], 1) + rng.normal(0, 0.05, (size, 2))
    return torch.FloatTensor(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--nz", type=int, default=8)
    opt = parser.parse_args()

    rng = np.random.default_rng(5)
    netG, netD = mlp([opt.nz, 64, 64, 2]), mlp([2, 64, 64, 1])
    netG.apply(lambda m: weights_init(m, rng))
    netD.apply(lambda m: weights_init(m, rng))
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for step in range(opt.steps):
        # Discriminator: real to 1, fake to 0.
        netD.zero_grad()
        label = torch.full((opt.batch,), 1.0)
        errD_real = criterion(netD(real_batch(rng, opt.batch)).view(-1), label)
        errD_real.backward()
        noise = torch.from_numpy(rng.standard_normal((opt.batch, opt.nz))).float()
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optimizerD.step()
        # Generator: fake to 1.
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
        if step % 10 == 0 or step == opt.steps - 1:
            errD = errD_real + errD_fake
            print("step %d lossD %.6f lossG %.6f D(G(z)) %.5f" % (step, errD.item(), errG.item(), output.sigmoid().mean().item()))


if __name__ == "__main__":
    main()
