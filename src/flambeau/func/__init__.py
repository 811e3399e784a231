"""Functions of functions: gradients, Jacobians and batching as transformations that compose.

Example:
    >>> fb.func.grad(lambda x: (x**2).sum())(fb.tensor([1., 2.]))
    tensor([2., 4.])
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from flambeau.func._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from flambeau.func._vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
__dir__ = _package_dir(__name__)
