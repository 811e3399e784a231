"""How tensors say their type, and converting by the classes PyTorch once had for them."""

import pytest

import flambeau as fb


def test_type_takes_tensor_classes():
    x = fb.ones(2, dtype=fb.float64)
    assert x.type(fb.FloatTensor).dtype == fb.float32 and x.type(fb.LongTensor).dtype == fb.int64
    assert x.type(fb.Tensor).dtype == fb.float32 and x.type("torch.HalfTensor").dtype == fb.float16
    assert fb.nn.Linear(2, 2).type(fb.DoubleTensor).weight.dtype == fb.float64
    with pytest.raises(RuntimeError, match="CUDA"):
        x.type(fb.cuda.FloatTensor)


def test_texts_name_torch_while_it_is_installed():
    def texts():
        return str(fb.float32), repr(fb.zeros(2, 3).shape), str(fb.channels_last), fb.ones(1).type()

    before = texts()
    with fb.compat.torch():
        assert texts() == ("torch.float32", "torch.Size([2, 3])", "torch.channels_last", "torch.FloatTensor")
        assert "dtype=torch.int32" in repr(fb.zeros(1, dtype=fb.int32))
    assert texts() == before and before[0] == "flambeau.float32"


def test_reductions_as_numbers():
    with fb.compat.torch():
        import torch.nn.functional as F
        from torch.nn import _reduction

    assert [_reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with fb.compat.torch():
        assert F._Reduction is _reduction
    with pytest.raises(ValueError, match="reduction"):
        _reduction.get_enum("max")


def test_variable_is_a_type_that_every_tensor_has():
    x = fb.ones(2)
    made = fb.autograd.Variable(x, requires_grad=True)
    assert type(made) is fb.Tensor and made.requires_grad and not x.requires_grad
    assert isinstance(made, fb.autograd.Variable) and isinstance(fb.nn.Parameter(x), fb.autograd.Variable)
    assert not isinstance(1.0, fb.autograd.Variable)
    assert issubclass(fb.nn.Parameter, fb.autograd.Variable) and not issubclass(int, fb.autograd.Variable)


def test_named_results_show_a_field_a_line():
    expected = "return_types.max(\nvalues=tensor([1.]),\nindices=tensor([0]))"
    assert repr(fb.ones(1, 2).max(1)) == "flambeau." + expected
    with fb.compat.torch():
        assert repr(fb.ones(1, 2).max(1)) == "torch." + expected
        assert repr(fb.linalg.slogdet(fb.eye(2))).startswith("torch.return_types.")
