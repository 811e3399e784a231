"""`torch._tensor_str`, for classes that print tensors in their own way."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.printing import get_printoptions, printoptions, set_printoptions

__all__ = ["PRINT_OPTS", "_add_suffixes", "_tensor_str", "get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    """The print options as attributes; setting one calls set_printoptions()."""

    def __getattr__(self, name: str) -> Any:
        try:
            return fb.get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"no print option is called {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        fb.set_printoptions(**{name: value})


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The values of a tensor without the word around them, later lines moved to the right.

    Example:
        >>> from flambeau.compat.printed import _tensor_str
        >>> _tensor_str(fb.arange(3), indent=4)
        '[0, 1, 2]'
    """
    text = repr(self.detach().as_subclass(Tensor))[len("tensor(") : -1]
    if self.dim():
        text = text[: text.rindex("]") + 1]
    else:
        text = text.partition(",")[0]
    return text.replace("\n" + " " * len("tensor("), "\n" + " " * indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Puts what values do not show behind them, on a new line where the line would get too long.

    Example:
        >>> from flambeau.compat.printed import _add_suffixes
        >>> _add_suffixes("tensor([0, 1]", ["dtype=torch.int32"], indent=7, force_newline=False)
        'tensor([0, 1], dtype=torch.int32)'
    """
    text, used = tensor_str, len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or used + len(suffix) + 2 > fb.get_printoptions()["linewidth"]:
            text += ",\n" + " " * indent + suffix
            used, force_newline = indent + len(suffix), False
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"
