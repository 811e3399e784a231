"""REINFORCE: a policy learns to keep a cart near the middle of a track."""

import argparse
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

eps = np.finfo(np.float32).eps.item()


class Track:
    """Push a cart left or right; it slides. The reward of a step is its closeness to the middle."""

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.position, self.speed = self.rng.uniform(-1, 1), 0.0
        return np.array([self.position, self.speed], dtype=np.float32)

    def step(self, action):
        self.speed = 0.9 * self.speed + (0.1 if action else -0.1)
        self.position += self.speed
        done = abs(self.position) > 2
        return np.array([self.position, self.speed], dtype=np.float32), 1.0 - abs(self.position), done


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(2, 32)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return F.log_softmax(self.affine2(torch.tanh(self.affine1(x))), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--length", type=int, default=40)
    args = parser.parse_args()

    rng = np.random.default_rng(7)
    env, policy = Track(rng), Policy()
    for p in policy.parameters():
        p.data = torch.from_numpy(rng.normal(0, 0.3, tuple(p.shape))).type_as(p)
    optimizer = optim.Adam(policy.parameters(), lr=2e-2)
    for episode in range(args.episodes):
        state, total = env.reset(), 0.0
        for _ in range(args.length):
            log_probs = policy(torch.from_numpy(state).float().unsqueeze(0))
            # The die is NumPy's: the same actions whatever library runs the script.
            action = int(rng.uniform() < log_probs.exp()[0, 1].item())
            policy.saved_log_probs.append(log_probs.gather(1, torch.tensor([[action]])).squeeze())
            state, reward, done = env.step(action)
            policy.rewards.append(reward)
            total += reward
            if done:
                break
        R, returns = 0.0, deque()
        for r in policy.rewards[::-1]:
            R = r + args.gamma * R
            returns.appendleft(R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + eps)
        losses = [-log_prob * ret for log_prob, ret in zip(policy.saved_log_probs, returns)]
        optimizer.zero_grad()
        loss = torch.stack(losses).sum()
        loss.backward()
        optimizer.step()
        del policy.rewards[:]
        del policy.saved_log_probs[:]
        print("episode {} loss {:.5f} reward {:.4f}".format(episode, loss.item(), total))


if __name__ == "__main__":
    main()
