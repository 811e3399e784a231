"""Every optimizer's update rule written out in NumPy, in float64, one parameter at a time."""

import numpy as np


class Rule:
    """A parameter's state and how a gradient changes the parameter. Complex parameters are pairs of real numbers."""

    defaults: dict = {}

    def __init__(self, **options):
        unknown = set(options) - set(self.defaults) - {"maximize", "weight_decay"}
        assert not unknown, f"the reference does not know {unknown}"
        self.o = {"maximize": False, "weight_decay": 0, **self.defaults, **options}
        self.t = 0

    def step(self, p, g):
        """The parameter after one more step."""
        if np.iscomplexobj(p):
            pairs = [np.stack([x.real, x.imag], -1) for x in (p, g)]
            new = self.step(*pairs)
            return new[..., 0] + 1j * new[..., 1]
        self.t += 1
        g = -g if self.o["maximize"] else g
        if self.t == 1:
            self.start(p, g)
        return self.update(p, g, self.o)

    def start(self, p, g):
        self.m = self.v = np.zeros_like(p)

    def update(self, p, g, o):
        raise AssertionError("each rule has its own")


class SGD(Rule):
    defaults = {"lr": 1e-3, "momentum": 0, "dampening": 0, "nesterov": False}

    def update(self, p, g, o):
        g = g + o["weight_decay"] * p
        if o["momentum"]:
            self.b = g if self.t == 1 else o["momentum"] * self.b + (1 - o["dampening"]) * g
            g = g + o["momentum"] * self.b if o["nesterov"] else self.b
        return p - o["lr"] * g


class Adam(Rule):
    defaults = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "decoupled_weight_decay": False,
    }  # fmt: skip

    def update(self, p, g, o):
        b1, b2 = o["betas"]
        if o["decoupled_weight_decay"]:
            p = p * (1 - o["lr"] * o["weight_decay"])
        else:
            g = g + o["weight_decay"] * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        v = self.v
        if o["amsgrad"]:
            self.largest = v = np.maximum(getattr(self, "largest", 0), v)
        m_hat = self.m / (1 - b1**self.t)
        return p - o["lr"] * m_hat / (np.sqrt(v / (1 - b2**self.t)) + o["eps"])


class AdamW(Adam):
    defaults = Adam.defaults | {"weight_decay": 1e-2, "decoupled_weight_decay": True}


class NAdam(Rule):
    defaults = {
        "lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "momentum_decay": 4e-3, "decoupled_weight_decay": False,
    }  # fmt: skip

    def update(self, p, g, o):
        b1, b2 = o["betas"]
        if o["decoupled_weight_decay"]:
            p = p * (1 - o["lr"] * o["weight_decay"])
        else:
            g = g + o["weight_decay"] * p
        mu, mu_next = (b1 * (1 - 0.5 * 0.96 ** (t * o["momentum_decay"])) for t in (self.t, self.t + 1))
        self.product = getattr(self, "product", 1.0) * mu
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        m_hat = mu_next * self.m / (1 - self.product * mu_next) + (1 - mu) * g / (1 - self.product)
        return p - o["lr"] * m_hat / (np.sqrt(self.v / (1 - b2**self.t)) + o["eps"])


class RAdam(Rule):
    defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decoupled_weight_decay": False}

    def update(self, p, g, o):
        b1, b2 = o["betas"]
        if o["decoupled_weight_decay"]:
            p = p * (1 - o["lr"] * o["weight_decay"])
        else:
            g = g + o["weight_decay"] * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        m_hat = self.m / (1 - b1**self.t)
        rho_inf = 2 / (1 - b2) - 1
        rho = rho_inf - 2 * self.t * b2**self.t / (1 - b2**self.t)
        if rho <= 5:
            return p - o["lr"] * m_hat
        r = np.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
        return p - o["lr"] * m_hat * r * np.sqrt(1 - b2**self.t) / (np.sqrt(self.v) + o["eps"])


class Adamax(Rule):
    defaults = {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8}

    def update(self, p, g, o):
        b1, b2 = o["betas"]
        g = g + o["weight_decay"] * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = np.maximum(b2 * self.v, np.abs(g) + o["eps"])
        return p - o["lr"] / (1 - b1**self.t) * self.m / self.v


class Adagrad(Rule):
    defaults = {"lr": 1e-2, "lr_decay": 0, "initial_accumulator_value": 0, "eps": 1e-10}

    def update(self, p, g, o):
        g = g + o["weight_decay"] * p
        self.sum = getattr(self, "sum", o["initial_accumulator_value"]) + g**2
        return p - o["lr"] / (1 + (self.t - 1) * o["lr_decay"]) * g / (np.sqrt(self.sum) + o["eps"])


class Adadelta(Rule):
    defaults = {"lr": 1.0, "rho": 0.9, "eps": 1e-6}

    def update(self, p, g, o):
        g = g + o["weight_decay"] * p
        self.v = o["rho"] * self.v + (1 - o["rho"]) * g**2
        delta = np.sqrt(self.m + o["eps"]) / np.sqrt(self.v + o["eps"]) * g
        self.m = o["rho"] * self.m + (1 - o["rho"]) * delta**2
        return p - o["lr"] * delta


class RMSprop(Rule):
    defaults = {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "momentum": 0, "centered": False}

    def update(self, p, g, o):
        g = g + o["weight_decay"] * p
        self.v = o["alpha"] * self.v + (1 - o["alpha"]) * g**2
        self.m = o["alpha"] * self.m + (1 - o["alpha"]) * g
        g = g / (np.sqrt(self.v - self.m**2 if o["centered"] else self.v) + o["eps"])
        if o["momentum"]:
            self.b = g = o["momentum"] * getattr(self, "b", 0) + g
        return p - o["lr"] * g


class Rprop(Rule):
    defaults = {"lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50)}

    def start(self, p, g):
        self.before, self.size = np.zeros_like(p), np.full_like(p, self.o["lr"])

    def update(self, p, g, o):
        agreement = np.sign(g * self.before)
        factor = np.select([agreement > 0, agreement < 0], [o["etas"][1], o["etas"][0]], 1.0)
        self.size = np.clip(self.size * factor, *o["step_sizes"])
        self.before = np.where(agreement < 0, 0, g)
        return p - self.size * np.sign(self.before)


class ASGD(Rule):
    defaults = {"lr": 1e-2, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6}

    def start(self, p, g):
        self.eta, self.mu, self.average = self.o["lr"], 1.0, np.zeros_like(p)

    def update(self, p, g, o):
        g = g + o["weight_decay"] * p
        p = p * (1 - o["lambd"] * self.eta) - self.eta * g
        self.average = self.average + self.mu * (p - self.average)
        self.eta = o["lr"] / (1 + o["lambd"] * o["lr"] * self.t) ** o["alpha"]
        self.mu = 1 / max(1, self.t - o["t0"])
        return p


class Adafactor(Rule):
    defaults = {"lr": 1e-2, "beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0}
    machine_epsilon = np.finfo(np.float32).eps

    def update(self, p, g, o):
        def rms(x):
            return np.sqrt(np.mean(x**2))

        eps1 = self.machine_epsilon if o["eps"][0] is None else o["eps"][0]
        new = self.t ** o["beta2_decay"]
        alpha = max(o["eps"][1], rms(p)) * min(o["lr"], self.t**-0.5)
        p = p * (1 - o["lr"] * o["weight_decay"])
        if g.ndim > 1:
            rows, columns = (np.mean(g**2, axis, keepdims=True) for axis in (-1, -2))
            self.r = (1 - new) * getattr(self, "r", 0) + new * rows
            self.c = (1 - new) * getattr(self, "c", 0) + new * columns
            variance = self.r @ self.c / np.maximum(np.mean(self.r, -2, keepdims=True), eps1)
        else:
            self.v = variance = (1 - new) * self.v + new * g**2
        update = g / np.sqrt(np.maximum(variance, eps1**2))
        return p - alpha * update / max(1, rms(update) / o["d"])


class SparseAdam(Rule):
    """Rows without a gradient stay as they are, and so do their averages."""

    defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}

    def update(self, p, g, o):
        b1, b2 = o["betas"]
        rows = np.any(g != 0, tuple(range(1, g.ndim)))
        self.m, self.v, p = self.m.copy(), self.v.copy(), p.copy()
        self.m[rows] += (1 - b1) * (g - self.m)[rows]
        self.v[rows] += (1 - b2) * (g**2 - self.v)[rows]
        size = o["lr"] * np.sqrt(1 - b2**self.t) / (1 - b1**self.t)
        p[rows] -= size * (self.m / (np.sqrt(self.v) + o["eps"]))[rows]
        return p
