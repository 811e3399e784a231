"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import LR, Number, Option, checked
from flambeau.optim._update import plain
from flambeau.optim.optimizer import Optimizer, ParamsT, R

__all__ = ["LBFGS"]
__dir__ = __all__.copy


class _Point(NamedTuple):
    """A point of the line search: step size, loss, gradient, and the slope of the loss along the line."""

    t: float
    loss: float
    grad: Tensor
    slope: float


_OPTIONS = (
    LR, *map(Option, ("max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size", "line_search_fn", "maximize")),
)  # fmt: skip


class LBFGS(Optimizer):
    """L-BFGS: Newton's method with the curvature estimated from the latest gradients.

    A step evaluates the loss several times, so `step` needs a closure. All parameters are in one group. The history
    costs `2 · history_size` times the memory of the parameters.

    Args:
        params: parameters or named parameters.
        lr: step size, or where the line search begins.
        max_iter: iterations per step.
        max_eval: evaluations of the loss per step; `max_iter · 5 // 4` unless given.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when loss and parameters change less.
        history_size: number of differences of gradients that are kept.
        line_search_fn: `"strong_wolfe"` for a line search with the strong Wolfe conditions, or None.
        maximize: maximize the objective instead of minimizing it.

    Example:
        >>> p = fb.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = fb.optim.LBFGS([p], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (p * p * fb.tensor([1.0, 10.0])).sum()
        ...     loss.backward()
        ...     return loss
        >>> first = optimizer.step(closure)
        >>> closure().item() < 1e-6
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        maximize: bool = False,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, checked("LBFGS", _OPTIONS, locals()))
        if len(self.param_groups) != 1:
            raise errors.ArgumentError(
                f"LBFGS: all parameters must be in one group, got {len(self.param_groups)} groups"
            )

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    @property
    def _maximize(self) -> bool:
        return self.param_groups[0].get("maximize", False)  # checkpoints may be older than the option

    def _flat_grad(self) -> Tensor:
        grads = [fb.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        flat = fb.cat([(fb.view_as_real(g) if g.is_complex() else g).reshape(-1) for g in grads])
        return flat.neg() if self._maximize else flat

    def _advance(self, t: float, direction: Tensor) -> None:
        """Moves all parameters by `t · direction`."""
        start = 0
        for p in self._params:
            p = fb.view_as_real(p) if p.is_complex() else p
            p.add_(direction[start : start + p.numel()].view(p.shape), alpha=t)
            start += p.numel()

    @fb.no_grad()
    def step(self, closure: Callable[[], R]) -> R:  # type: ignore[override]  # it needs a closure
        """Up to `max_iter` iterations.

        Args:
            closure: clears the gradients, computes the loss and its gradients, and returns the loss.

        Returns:
            The loss before the step.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> optimizer = fb.optim.LBFGS([p])
            >>> def closure():
            ...     optimizer.zero_grad()
            ...     loss = (p * p).sum()
            ...     loss.backward()
            ...     return loss
            >>> optimizer.step(closure).item()
            2.0
        """
        group = self.param_groups[0]
        lr = plain(group["lr"])
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise errors.StateError(
                f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {group['line_search_fn']!r}"
            )

        def evaluate() -> Any:
            with fb.enable_grad():
                return closure()

        def signed(loss: Any) -> float:
            return -float(loss) if self._maximize else float(loss)

        first_loss = evaluate()
        if not self._params:
            return first_loss
        state = self.state[self._params[0]]
        loss, evaluations = signed(first_loss), 1
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        grad = self._flat_grad()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return first_loss

        direction, t = state.get("d"), state.get("t")
        memory = _History(state, group["history_size"])
        previous_grad, previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        iteration, converged = 0, False
        while iteration < group["max_iter"]:
            iteration += 1
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            if first:
                memory.clear()
                direction = grad.neg()
            else:
                memory.learn(grad - previous_grad, direction * t)
                direction = memory.newton_direction(grad)
            previous_grad = grad.clone() if previous_grad is None else previous_grad.copy_(grad)
            previous_loss = loss
            t = lr / max(1.0, grad.abs().sum().item()) if first else lr
            slope = grad.dot(direction).item()
            if slope > -group["tolerance_change"]:
                break

            used = 0
            if group["line_search_fn"] is not None:
                start = [p.clone() for p in self._params]

                def at(t: float, start: list[Tensor] = start, along: Tensor = direction) -> _Point:
                    self._advance(t, along)
                    loss, grad = signed(evaluate()), self._flat_grad()
                    for p, before in zip(self._params, start, strict=True):
                        p.copy_(before)
                    return _Point(t, loss, grad, grad.dot(along).item())

                size = direction.abs().max().item()
                found, used = _strong_wolfe(
                    at, _Point(0.0, loss, grad, slope), t, size, group["max_eval"] - evaluations
                )
                t, loss, grad = found.t, found.loss, found.grad
                self._advance(t, direction)
                converged = grad.abs().max().item() <= group["tolerance_grad"]
            else:
                self._advance(t, direction)
                # The gradient after the last iteration is never needed.
                if iteration != group["max_iter"]:
                    loss, grad, used = signed(evaluate()), self._flat_grad(), 1
                    converged = grad.abs().max().item() <= group["tolerance_grad"]
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= group["max_eval"]
                or converged
                or (direction * t).abs().max().item() <= group["tolerance_change"]
                or abs(loss - previous_loss) < group["tolerance_change"]
            ):
                break

        state.update(d=direction, t=t, prev_flat_grad=previous_grad, prev_loss=previous_loss)
        memory.save(state)
        return first_loss


class _History:
    """The latest changes of gradients (y) and parameters (s), and the inverse Hessian approximation."""

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.y, self.s = list(state.get("old_dirs") or ()), list(state.get("old_stps") or ())
        self.rho = [float(value) for value in state.get("ro") or ()]
        self.scale = float(state.get("H_diag", 1))

    def clear(self) -> None:
        self.y, self.s, self.rho, self.scale = [], [], [], 1.0

    def save(self, state: dict[str, Any]) -> None:
        state.update(old_dirs=self.y, old_stps=self.s, ro=self.rho, H_diag=self.scale)

    def learn(self, y: Tensor, s: Tensor) -> None:
        curvature = y.dot(s).item()
        if curvature <= 1e-10:
            return
        if len(self.y) == self.size:
            del self.y[0], self.s[0], self.rho[0]
        self.y.append(y)
        self.s.append(s)
        self.rho.append(1.0 / curvature)
        self.scale = curvature / y.dot(y).item()

    def newton_direction(self, grad: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient, by the two-loop recursion."""
        direction, alphas = grad.neg(), []
        for y, s, rho in zip(reversed(self.y), reversed(self.s), reversed(self.rho), strict=True):
            alphas.append(s.dot(direction).item() * rho)
            direction.add_(y, alpha=-alphas[-1])
        direction.mul_(self.scale)
        for y, s, rho, alpha in zip(self.y, self.s, self.rho, reversed(alphas), strict=True):
            direction.add_(s, alpha=alpha - y.dot(direction).item() * rho)
        return direction


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two points with their slopes, within the bounds (default: between them)."""
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    if a.t == b.t:
        return low
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square**0.5
    denominator = b.slope - a.slope + 2 * d2
    if denominator == 0:
        return (low + high) / 2.0
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / denominator), low), high)


def _strong_wolfe(
    at: Callable[[float], _Point],
    start: _Point,
    t: float,
    size: float,
    max_evaluations: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[_Point, int]:
    """A point where the loss has decreased enough (c1) and its slope is flat enough (c2), and the number of
    evaluations.

    The first loop expands until two points bracket a minimum, the second narrows the bracket.
    """

    def too_high(point: _Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def flat(point: _Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    before, here, evaluations = start, at(t), 1
    bracket: list[_Point] = []
    rounds = 0
    while rounds < max_evaluations:
        if too_high(here) or (rounds > 1 and here.loss >= before.loss) or (not flat(here) and here.slope >= 0):
            bracket = [before, here]
            break
        if flat(here):
            return here, evaluations
        bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
        before, here = here, at(_cubic_minimum(before, here, bounds))
        evaluations += 1
        rounds += 1
    if not bracket:
        bracket = [start, here]

    stalled = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while rounds < max_evaluations:
        left, right = sorted(point.t for point in bracket)
        if (right - left) * size < tolerance:
            break
        t = _cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (right - left)
        near_end = min(right - t, t - left) < margin
        if near_end and (stalled or t >= right or t <= left):
            # A second trial too close to an end of the bracket: force a step inside.
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            stalled = False
        else:
            stalled = near_end
        here = at(t)
        evaluations += 1
        rounds += 1
        if too_high(here) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = flat(here)
        if not done and here.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if done:
            break
    return bracket[low], evaluations
