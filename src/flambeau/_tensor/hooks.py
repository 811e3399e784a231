"""Hooks as methods of tensors and nodes."""

from __future__ import annotations

from flambeau import _C


def _register_hook(self, hook):
    """register_hook(hook)

    Calls hook(grad) when this tensor's gradient is computed; what it returns replaces the gradient.

    Args:
        hook: called with the gradient; returns None or another gradient.

    Returns:
        A handle whose remove() takes the hook away.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
    """
    from flambeau.autograd.graph import Handle

    place, number = self._add_hook(hook)
    return Handle(lambda: place._remove_hook(number))


def _register_post_accumulate_grad_hook(self, hook):
    """register_post_accumulate_grad_hook(hook)

    Calls hook(tensor) when .grad of this leaf is complete.

    Args:
        hook: called with the tensor; returns None.

    Returns:
        A handle whose remove() takes the hook away.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda t: print(t.grad))
        >>> x.sum().backward()
        tensor([1., 1.])
    """
    from flambeau.autograd.graph import Handle

    number = self._add_post_hook(hook)
    return Handle(lambda: self._remove_hook(number))


def _register_node_hook(self, fn):
    """Calls fn(grad_inputs, grad_outputs) after this node's backward; its return value replaces grad_inputs."""
    from flambeau.autograd.graph import Handle

    number = self._add_hook(fn)
    return Handle(lambda: self._remove_hook(number))


def _register_prehook(self, fn):
    """Calls fn(grad_outputs) before this node's backward; its return value replaces them."""
    from flambeau.autograd.graph import Handle

    number = self._add_prehook(fn)
    return Handle(lambda: self._remove_hook(number))


_C.Node.register_hook, _C.Node.register_prehook = _register_node_hook, _register_prehook

METHODS = {
    "register_hook": _register_hook,
    "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
}
