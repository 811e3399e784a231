"""Small modules of PyTorch that libraries import: functional, types, __future__, nn.grad, utils.file_baton, bases of padding."""

import subprocess
import sys
import threading
import time

import pytest

import flambeau as fb


def test_functional_and_types():
    with fb.compat.torch() as torch:
        from torch.functional import einsum, norm, split
        from torch.types import Device, Number, Storage

        assert einsum is fb.einsum and norm is fb.norm and split is fb.split and torch.functional.tensordot is fb.tensordot
        assert isinstance(2, Number) and isinstance(None, Device) and isinstance(fb.ones(1).storage(), Storage)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("window", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 1, 2, 2)], ids=str)
def test_gradients_of_convolutions(spatial, window):
    stride, padding, dilation, groups = window
    x = fb.randn(2, 4, *(7,) * spatial, dtype=fb.float64, requires_grad=True)
    w = fb.randn(6, 4 // groups, *(3,) * spatial, dtype=fb.float64, requires_grad=True)
    y = getattr(fb.nn.functional, f"conv{spatial}d")(x, w, None, *window)
    g = fb.randn(y.shape, dtype=fb.float64)
    y.backward(g)
    grad = fb.nn.grad
    by_input = getattr(grad, f"conv{spatial}d_input")(x.shape, w.detach(), g, stride, padding, dilation, groups)
    by_weight = getattr(grad, f"conv{spatial}d_weight")(x.detach(), w.shape, g, stride, padding, dilation, groups)
    assert fb.allclose(by_input, x.grad) and fb.allclose(by_weight, w.grad) and not by_input.requires_grad
    with fb.no_grad():
        assert fb.allclose(getattr(grad, f"conv{spatial}d_weight")(x, w.shape, g, *window), w.grad)
    again = getattr(grad, f"conv{spatial}d_input")(x.shape, w, g, *window)
    assert again.requires_grad  # the gradient of the gradient can be asked for
    with pytest.raises(ValueError, match="expected grad_output of shape"):
        getattr(grad, f"conv{spatial}d_input")(x.shape, w, g[:1], *window)
    with pytest.raises(ValueError, match="input_size must have"):
        getattr(grad, f"conv{spatial}d_input")((4, 5), w, g, *window)


def test_conversions_replace_or_exchange_parameters():
    future = fb.__future__
    m = fb.nn.Linear(2, 1)
    m(fb.ones(1, 2)).sum().backward()
    before = m.weight
    try:
        future.set_overwrite_module_params_on_conversion(True)
        assert m.double().weight is not before and m.weight.dtype == fb.float64 and before.dtype == fb.float32
        assert m.weight.grad.dtype == fb.float64 and m.weight.requires_grad
        future.set_overwrite_module_params_on_conversion(False)
        future.set_swap_module_params_on_conversion(True)
        before = m.weight
        before.tag = 1
        assert m.float().weight is before and before.dtype == fb.float32 and before.grad.dtype == fb.float32
        assert future.get_swap_module_params_on_conversion() and not future.get_overwrite_module_params_on_conversion()
        before, source = m.weight, fb.full_like(m.weight, 3.0)
        m.load_state_dict({"weight": source, "bias": m.bias.detach()}, assign=True)
        assert m.weight is before and before.data_ptr() == source.data_ptr() and before.requires_grad
        m.load_state_dict({"weight": source * 2, "bias": m.bias.detach()})
        assert m.weight is before and before.data_ptr() == source.data_ptr() and (before == 6).all()
    finally:
        future.set_overwrite_module_params_on_conversion(False)
        future.set_swap_module_params_on_conversion(False)
    before = m.weight
    assert m.double().weight is before


def test_future_is_an_attribute_of_torch():
    code = "from flambeau import compat; compat.install(); import torch; print(torch.__future__.get_swap_module_params_on_conversion())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_file_baton(tmp_path):
    path = str(tmp_path / "lock")
    first, second = fb.utils.file_baton.FileBaton(path), fb.utils.file_baton.FileBaton(path, 0.01, warn_after_seconds=0.02)
    assert first.try_acquire() and not second.try_acquire()

    def release_soon():
        time.sleep(0.2)
        first.release()

    thread = threading.Thread(target=release_soon)
    thread.start()
    with pytest.warns(UserWarning, match="FileBaton: waited"):
        second.wait()
    thread.join()
    assert second.try_acquire()
    second.release()


def test_bases_of_padding():
    from flambeau.nn.modules.padding import _CircularPadNd, _ConstantPadNd, _ReflectionPadNd, _ReplicationPadNd

    class Pad4(_ConstantPadNd):
        def __init__(self, padding, value):
            super().__init__(value)
            self.padding = padding

    assert Pad4((1, 0), 2.0)(fb.zeros(1)).tolist() == [2.0, 0.0] and repr(Pad4((1, 0), 2.0)) == "Pad4(padding=(1, 0), value=2.0)"
    assert isinstance(fb.nn.ConstantPad2d(1, 0.5), _ConstantPadNd) and isinstance(fb.nn.ZeroPad2d(1), _ConstantPadNd)
    assert isinstance(fb.nn.ReflectionPad1d(1), _ReflectionPadNd) and isinstance(fb.nn.ReplicationPad1d(1), _ReplicationPadNd)
    assert fb.nn.CircularPad1d(1)(fb.arange(3.0).view(1, 3)).tolist() == [[2, 0, 1, 2, 0]]
    assert issubclass(fb.nn.CircularPad3d, _CircularPadNd)


def test_exceptions_on_their_way():
    import pickle

    with fb.compat.torch():
        from torch._utils import ExceptionWrapper

        try:
            [][3]
        except IndexError:
            caught = ExceptionWrapper(where="in thread 3")
        caught = pickle.loads(pickle.dumps(caught))
        assert caught.exc_type is IndexError and "test_small_modules.py" in caught.exc_msg
        with pytest.raises(IndexError, match="(?s)Caught IndexError in thread 3.*list index out of range"):
            caught.reraise()
        with pytest.raises(ValueError, match="no exception is being handled"):
            ExceptionWrapper()
