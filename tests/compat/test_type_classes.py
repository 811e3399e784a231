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
