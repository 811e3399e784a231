"""Modules that infer missing sizes from their first input."""

from __future__ import annotations

from typing import Any

from flambeau.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]
__dir__ = __all__.copy


class LazyModuleMixin:
    """Makes a module wait for its first input before it gives its parameters their shape.

    A subclass registers UninitializedParameters, defines initialize_parameters(*inputs), and names in cls_to_become the
    class it turns into.

    Example:
        >>> fb.nn.LazyLinear(3).has_uninitialized_params()
        True
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    register_forward_pre_hook: Any  # the module's
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(LazyModuleMixin._infer_parameters, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their shape from the inputs of forward(); every lazy class defines it."""
        raise NotImplementedError(f"initialize_parameters: {type(self).__name__} does not define it")

    def _infer_parameters(self, args: tuple[Any, ...], kwargs: dict[Any, Any] | None = None) -> None:
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise RuntimeError(
                f"{type(self).__name__}: parameters are still without shape after initialize_parameters()"
            )
        self._initialize_hook.remove()
        del self._initialize_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]  # classes are not fixed in Python

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(f"{type(self).__name__}: run a forward pass before the module is replicated")
