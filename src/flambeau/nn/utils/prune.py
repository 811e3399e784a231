"""Pruning: parts of a tensor are masked to zero."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
__dir__ = __all__.copy


class BasePruningMethod(ABC):
    """How a mask is chosen; a subclass defines compute_mask(t, default_mask) and PRUNING_TYPE.

    PRUNING_TYPE is "unstructured", "structured" or "global", and says what a further round of pruning works on.
    Applied to a parameter `name`, the values stay in `name_orig`, the mask is the buffer `name_mask`, and `name` is
    their
    product, computed before each forward.

    Example:
        >>> issubclass(fb.nn.utils.prune.L1Unstructured, fb.nn.utils.prune.BasePruningMethod)
        True
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor, given the mask so far."""

    def apply_mask(self, module: Any) -> Tensor:
        """The original times the mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Prunes a parameter of a module; pruning it again combines the masks."""
        previous = _hooks_of(module, name)
        if len(previous) > 1:
            raise AssertionError(f"prune: '{name}' of {type(module).__name__} has {len(previous)} pruning hooks")
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if previous:
            number, old = previous[0]
            del module._forward_pre_hooks[number]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        current = getattr(module, name)
        scores = current if importance_scores is None else importance_scores
        if scores.shape != current.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(current.shape)}, got {tuple(scores.shape)}"
            )
        if not previous:
            original = module._parameters.pop(name)
            module.register_parameter(name + "_orig", original)
            default = fb.ones_like(original.detach())
        else:
            original = getattr(module, name + "_orig")
            default = getattr(module, name + "_mask").detach().clone()
        try:
            with fb.no_grad():
                mask = method.compute_mask(scores.detach(), default)
        except Exception:
            if not previous:  # first pruning
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            else:
                module.register_forward_pre_hook(previous[0][1])
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with a fresh mask applied."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(t.shape)}, got {tuple(scores.shape)}"
            )
        default = fb.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default)

    def remove(self, module: Any) -> None:
        """Makes the pruned values permanent."""
        weight = self.apply_mask(module)
        delattr(module, self._tensor_name)
        original = module._parameters.pop(self._tensor_name + "_orig")
        original.data = weight.detach()
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


def _hooks_of(module: Any, name: str) -> list[tuple[int, BasePruningMethod]]:
    """Pruning hooks of one parameter."""
    return [
        (number, hook)
        for number, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


class PruningContainer(BasePruningMethod):
    """Several rounds of pruning of one parameter; the last one looks at what the others left.

    Args:
        args: the methods of these rounds.

    Example:
        >>> len(fb.nn.utils.prune.PruningContainer(fb.nn.utils.prune.Identity()))
        1
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and isinstance(args[0], Iterable) and not isinstance(args[0], BasePruningMethod):
            args = tuple(args[0])
        for method in args:
            if not self._pruning_methods:
                self._tensor_name = getattr(method, "_tensor_name", None)  # type: ignore[assignment]  # checked when added
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Adds a round."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"add_pruning_method: expected a BasePruningMethod, got {type(method).__name__}")
        if getattr(method, "_tensor_name", self._tensor_name) != self._tensor_name:
            raise ValueError(
                f"add_pruning_method: expected a method for '{self._tensor_name}', got '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last round, which chooses among the remaining units, combined with the mask so far."""
        method = self._pruning_methods[-1]
        kept = default_mask != 0
        mask = default_mask.to(t.dtype, copy=True)
        if method.PRUNING_TYPE == "unstructured":
            mask[kept] = method.compute_mask(t[kept], default_mask[kept]).to(mask.dtype)
        elif method.PRUNING_TYPE == "structured":
            # slices that are zero already are not candidates
            dim = method.dim % t.ndim
            alive = kept.movedim(dim, 0).reshape(t.shape[dim], -1).any(1).nonzero().squeeze(1)
            part = method.compute_mask(t.index_select(dim, alive), default_mask.index_select(dim, alive))
            mask = mask.index_copy(dim, alive, part.to(mask.dtype))
        elif method.PRUNING_TYPE == "global":
            mask = method.compute_mask(t, default_mask)
        else:
            raise ValueError(f"compute_mask: unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but sets up mask and original.

    Example:
        >>> fb.nn.utils.prune.Identity().prune(fb.ones(2))
        tensor([1., 1.])
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask


class _Amount(BasePruningMethod):
    """A method that prunes a number, or a fraction, of units."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount, type(self).__name__)
        self.amount = amount

    def _count(self, size: int) -> int:
        """Number of units to prune, out of `size`."""
        _validate_pruning_amount(self.amount, size, type(self).__name__)
        return _compute_nparams_toprune(self.amount, size)


def _validate_pruning_amount_init(amount: Any, op: str = "prune") -> None:
    if not isinstance(amount, numbers.Real) or isinstance(amount, bool):
        raise TypeError(f"{op}: amount must be a number, got {type(amount).__name__}")
    if (isinstance(amount, int) and amount < 0) or (not isinstance(amount, int) and not 0 <= float(amount) <= 1):
        raise ValueError(f"{op}: amount must be a fraction in [0, 1] or a non-negative count, got {amount}")


def _validate_pruning_amount(amount: Any, tensor_size: int, op: str = "prune") -> None:
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"{op}: amount={amount} is more than the {tensor_size} there are")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """The number of units to prune, from a count or a fraction."""
    return amount if isinstance(amount, int) else round(float(amount) * tensor_size)


class RandomUnstructured(_Amount):
    """Prunes elements at random.

    Args:
        amount: number, or fraction.

    Example:
        >>> (fb.nn.utils.prune.RandomUnstructured(2).prune(fb.ones(5)) == 0).sum()
        tensor(2)
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without some random elements."""
        chosen = fb.randperm(t.numel())[: self._count(t.numel())]
        return default_mask.reshape(-1).index_fill(0, chosen, 0).view(t.shape)


class L1Unstructured(_Amount):
    """Prunes the elements with the smallest absolute value.

    Args:
        amount: number, or fraction.

    Example:
        >>> fb.nn.utils.prune.L1Unstructured(1).prune(fb.tensor([3.0, -1.0, 2.0]))
        tensor([3., -0., 2.])
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without the smallest elements."""
        n = self._count(t.numel())
        if n == 0:
            return default_mask.clone()
        smallest = t.abs().reshape(-1).topk(n, largest=False).indices
        return default_mask.reshape(-1).index_fill(0, smallest, 0).view(t.shape)


class RandomStructured(_Amount):
    """Prunes slices of a dimension at random.

    Args:
        amount: number, or fraction.
        dim: the dimension.

    Example:
        >>> fb.nn.utils.prune.RandomStructured(1, dim=0).prune(fb.ones(2, 3)).sum()
        tensor(3.)
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without some random slices."""
        _check_structured(self, t)
        size = t.shape[self.dim]
        return default_mask.index_fill(self.dim, fb.randperm(size)[: self._count(size)], 0)


class LnStructured(_Amount):
    """Prunes the slices of a dimension that have the smallest norm.

    Args:
        amount: number, or fraction.
        n: order of the norm.
        dim: the dimension.

    Example:
        >>> fb.nn.utils.prune.LnStructured(1, n=2, dim=0).prune(fb.tensor([[1.0, 1.0], [3.0, 3.0]]))
        tensor([[0., 0.],
                [3., 3.]])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without the smallest slices."""
        _check_structured(self, t)
        count = self._count(t.shape[self.dim])
        if count == 0:
            return default_mask
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        norms = fb.norm(t, p=self.n, dim=others)
        return default_mask.index_fill(self.dim, norms.topk(count, largest=False).indices, 0)


def _check_structured(method: Any, t: Tensor) -> None:
    if t.ndim <= 1:
        raise ValueError(
            f"{type(method).__name__}: structured pruning needs at least 2 dimensions, got shape {tuple(t.shape)}"
        )
    if not -t.ndim <= method.dim < t.ndim:
        raise IndexError(f"{type(method).__name__}: invalid dim {method.dim} for tensor of shape {tuple(t.shape)}")


class CustomFromMask(BasePruningMethod):
    """Prunes with a given mask.

    Args:
        mask: ones where elements stay, zeros where they go.

    Example:
        >>> fb.nn.utils.prune.CustomFromMask(fb.tensor([1, 0])).prune(fb.ones(2))
        tensor([1., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"CustomFromMask: expected a mask of shape {tuple(default_mask.shape)}, got {tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# ---- functions ---------------------------------------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Sets up mask and original of a parameter without pruning it.

    Example:
        >>> sorted(fb.nn.utils.prune.identity(fb.nn.Linear(2, 1), "weight").state_dict())
        ['bias', 'weight_mask', 'weight_orig']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prunes elements of a parameter at random.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        amount: number, or fraction.

    Example:
        >>> (fb.nn.utils.prune.random_unstructured(fb.nn.Linear(2, 2), "weight", 1).weight_mask == 0).sum()
        tensor(1)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:
    """Prunes the elements of a parameter with the smallest absolute value.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        amount: number, or fraction.
        importance_scores: what to compare in place of the values.

    Example:
        >>> (fb.nn.utils.prune.l1_unstructured(fb.nn.Linear(2, 2), "weight", 0.5).weight_mask == 0).sum()
        tensor(2)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prunes slices of a parameter at random.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        amount: number, or fraction.
        dim: the dimension.

    Example:
        >>> (fb.nn.utils.prune.random_structured(fb.nn.Linear(3, 2), "weight", 1, dim=0).weight_mask == 0).sum()
        tensor(3)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prunes the slices of a parameter that have the smallest norm.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        amount: number, or fraction.
        n: order of the norm.
        dim: the dimension.
        importance_scores: what to compare in place of the values.

    Example:
        >>> (fb.nn.utils.prune.ln_structured(fb.nn.Linear(3, 2), "weight", 1, n=2, dim=0).weight_mask == 0).sum()
        tensor(3)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prunes a parameter with a given mask.

    Example:
        >>> fb.nn.utils.prune.custom_from_mask(fb.nn.Linear(2, 1), "bias", fb.zeros(1)).bias.item()
        0.0
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[Any],
    importance_scores: dict[Any, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several parameters together, as if they were one.

    Args:
        parameters: pairs of modules and names.
        pruning_method: an unstructured method.
        importance_scores: what to compare in place of the values, by (module, name).
        kwargs: for the method.

    Example:
        >>> a, b = fb.nn.Linear(2, 2), fb.nn.Linear(2, 2)
        >>> both = [(a, "weight"), (b, "weight")]
        >>> fb.nn.utils.prune.global_unstructured(both, fb.nn.utils.prune.L1Unstructured, amount=4)
        >>> int((a.weight_mask == 0).sum() + (b.weight_mask == 0).sum())
        4
    """
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(f"global_unstructured: importance_scores must be a dictionary, got {type(scores).__name__}")
    if not pairs:
        raise TypeError("global_unstructured: parameters must hold at least one pair of a module and a name")
    values = [scores.get((module, name), getattr(module, name)).detach() for module, name in pairs]
    masks = [getattr(module, name + "_mask", fb.ones_like(getattr(module, name).detach())) for module, name in pairs]
    flat_values, flat_masks = fb.cat([v.reshape(-1) for v in values]), fb.cat([m.reshape(-1) for m in masks])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: needs an unstructured method, got PRUNING_TYPE {method.PRUNING_TYPE}")
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    with fb.no_grad():
        mask = container.compute_mask(flat_values, flat_masks)
    at = 0
    for module, name in pairs:
        tensor = getattr(module, name)
        custom_from_mask(module, name, mask[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def remove(module: Any, name: str) -> Any:
    """Makes the pruning of a parameter permanent: mask and original disappear.

    Example:
        >>> m = fb.nn.utils.prune.identity(fb.nn.Linear(2, 1), "weight")
        >>> sorted(fb.nn.utils.prune.remove(m, "weight").state_dict())
        ['bias', 'weight']
    """
    for number, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(f"remove: parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether any parameter of a module, or below it, is pruned.

    Example:
        >>> fb.nn.utils.prune.is_pruned(fb.nn.Linear(2, 1))
        False
    """
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())
