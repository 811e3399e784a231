"""Functions that libraries call at import time, or to query their state, from parts of PyTorch that flambeau lacks.

Nothing is traced, exported or compiled here, so markers for tracers and compilers have no effect, and the answer to "is
this being exported?" is no.
"""

from __future__ import annotations

import contextlib
from typing import Any

__all__ = ["TABLE"]


def _mark(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return fn if callable(fn) or isinstance(fn, str) else lambda inner: inner


def _decorator(*args: Any, **options: Any) -> Any:
    """Makes a decorator that changes nothing."""
    return lambda inner: inner


def _no(*args: Any, **options: Any) -> bool:
    return False


def _nothing(*args: Any, **options: Any) -> None:
    return None


def _loops() -> Any:
    from flambeau.func._batching import Loops

    return Loops


TABLE: dict[str, Any] = {
    "torch._C._functorch._is_vmap_fallback_enabled": lambda: _loops().allowed,
    "torch._C._functorch._set_vmap_fallback_enabled": lambda on: setattr(_loops(), "allowed", bool(on)),
    "torch.fx.wrap": _mark,
    "torch.fx._compatibility.compatibility": _decorator,
    "torch.fx._symbolic_trace.is_fx_tracing": _no,
    "torch.onnx.is_in_onnx_export": _no,
    "torch.onnx.register_custom_op_symbolic": _nothing,
    "torch.onnx.symbolic_helper.parse_args": _decorator,
    "torch.onnx.utils.is_in_onnx_export": _no,
    "torch.package.is_from_package": _no,
    "torch._dynamo.allow_in_graph": _mark,
    "torch._dynamo.assume_constant_result": _mark,
    "torch._dynamo.disable": _mark,
    "torch._dynamo.disallow_in_graph": _mark,
    "torch._dynamo.is_compiling": _no,
    "torch._dynamo.external_utils.is_compiling": _no,
    "torch._dynamo.mark_dynamic": _nothing,
    "torch._dynamo.graph_break": _nothing,
    "torch._dynamo.mark_static": _nothing,
    "torch._dynamo.mark_static_address": _nothing,
    "torch._dynamo.maybe_mark_dynamic": _nothing,
    "torch._dynamo.optimize": _decorator,
    "torch._dynamo.reset": _nothing,
    "torch._prims_common.alert_not_deterministic": _nothing,
    "torch.jit.TracerWarning": type("TracerWarning", (Warning,), {"__doc__": "A warning nothing here gives: calls are not traced."}),
    "torch._C._jit_clear_class_registry": _nothing,
    "torch._subclasses.fake_tensor.is_fake": _no,
    "torch.autograd._profiler_enabled": _no,
    "torch.backends.mps.is_macos_or_newer": _no,
    "torch.cuda.is_current_stream_capturing": _no,
    "torch.xpu.is_current_stream_capturing": _no,
    "torch.xpu.is_bf16_supported": _no,
    "torch.distributed.rpc.api._require_initialized": _mark,
    "torch.utils.data.functional_datapipe": _decorator,
    "torch.mps.is_available": _no,
    "torch.mps.device_count": lambda: 0,
    "torch.mtia.is_available": _no,
    "torch.mtia.device_count": lambda: 0,
    "torch.backends.quantized.engine": "none",
    "torch.backends.quantized.supported_engines": ["none"],
    "torch.fx.experimental.proxy_tensor.maybe_disable_fake_tensor_mode": contextlib.nullcontext,
}
