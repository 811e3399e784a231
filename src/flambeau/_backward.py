"""Gradients as methods of a tensor; autograd itself is loaded when first used."""

from __future__ import annotations


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)

    Sums gradients of this tensor into the .grad of the leaves it depends on.

    Args:
        gradient: the gradient of this tensor; may be left out when it has one element.
        retain_graph: keep what the graph holds for another backward; create_graph by default.
        create_graph: record the backward itself, for gradients of gradients.
        inputs: only these get a gradient; all leaves by default.

    Example:
        >>> x = fb.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    from flambeau import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


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


METHODS = {
    "backward": _backward,
    "register_hook": _register_hook,
    "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
}
