"""What scripts for CUDA ask of torch besides training: questions about the device, older types, and less common layers."""

import copy
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.deterministic = True
torch.cuda.set_device(0)
properties = torch.cuda.get_device_properties(0)
assert properties.total_memory > 0 and properties.name == torch.cuda.get_device_name() and len(torch.cuda.get_device_capability()) == 2
assert torch.cuda.mem_get_info()[0] > 0 and torch.cuda.memory_stats()["allocated_bytes.all.peak"] >= 0
assert torch.get_device_module("cuda") is torch.cuda and torch.cuda.is_bf16_supported()

model = nn.DataParallel(nn.Linear(4, 2)).cuda()
assert model(torch.randn(3, 4).cuda()).shape == (3, 2)
x = torch.randn(4, 4, device="cuda:0", requires_grad=True)
assert torch.zeros_like(x).is_cuda and x.new_zeros(2).get_device() == 0 and torch.arange(3, device=torch.device("cuda", 0)).is_cuda
assert x.type() == "torch.cuda.FloatTensor" and x.type(torch.cuda.HalfTensor).dtype == torch.float16
assert x.type("torch.DoubleTensor").device.type == "cpu" and torch.ones(2).type("torch.cuda.LongTensor").is_cuda
made = torch.cuda.FloatTensor(2, 3).fill_(1)
assert made.is_cuda and made.sum().item() == 6 and isinstance(made, torch.cuda.FloatTensor) and not isinstance(made, torch.FloatTensor)
torch.cuda.nvtx.range_push("step")
torch.cuda.nvtx.range_pop()

with torch.inference_mode():
    attended = F.scaled_dot_product_attention(*[torch.randn(1, 2, 5, 8, device="cuda") for _ in range(3)])
assert attended.shape == (1, 2, 5, 8)
lstm = nn.LSTM(4, 5, batch_first=True).cuda()
lstm.flatten_parameters()
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(2, 3, 4).cuda(), [3, 2], batch_first=True)
assert lstm(packed)[0].data.is_cuda
checkpoint(nn.Linear(4, 4).cuda(), x, use_reentrant=False).sum().backward()
assert x.grad.is_cuda
optimizer = torch.optim.Adam(model.parameters(), fused=True)
model(torch.randn(3, 4).cuda()).sum().backward()
optimizer.step()
assert next(iter(optimizer.state.values()))["exp_avg"].is_cuda

try:
    torch.ones(2).cuda() + torch.ones(2)
except RuntimeError as error:
    assert "cuda:0" in str(error) and "cpu" in str(error)
else:
    raise AssertionError("tensors on two devices were added")
torch.manual_seed(0)
first = torch.rand(2, device="cuda")
torch.manual_seed(0)
assert torch.equal(first, torch.rand(2, device="cuda")) and torch.randperm(4, device="cuda").is_cuda
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
assert next(copy.deepcopy(model).parameters()).is_cuda and pickle.loads(pickle.dumps(made)).is_cuda
print("done")
