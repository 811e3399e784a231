"""A script as people write them for PyTorch and CUDA: mixed precision, loaders, checkpoints, streams, events, memory."""

import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

assert torch.cuda.is_available()
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(torch.cuda.get_device_name(0), torch.cuda.device_count(), torch.cuda.current_device())

data = TensorDataset(torch.randn(64, 3, 8, 8), torch.randint(0, 4, (64,)))
loader = DataLoader(data, batch_size=16, shuffle=True, pin_memory=True, num_workers=2)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
model = model.cuda()
assert next(model.parameters()).is_cuda and next(model.parameters()).device == torch.device("cuda:0")
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.cuda.amp.GradScaler()

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
torch.cuda.reset_peak_memory_stats()
losses = []
for _ in range(3):
    total = 0.0
    for images, labels in loader:
        assert images.is_pinned()
        images, labels = images.to(device, non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.amp.autocast():
            output = model(images)
            assert output.dtype == torch.float16
            loss = criterion(output, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    losses.append(total / len(loader))
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
assert losses[-1] < losses[0], losses
assert 0 < torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated() <= torch.cuda.max_memory_reserved()

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    assert torch.cuda.current_stream() == side
    y = torch.ones(4, device="cuda") * 2
torch.cuda.current_stream().wait_stream(side)
assert y.sum().cpu().item() == 8 and isinstance(y, torch.cuda.FloatTensor) and "cuda:0" in repr(y)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    there = torch.load(path)
    assert there["model"]["0.weight"].is_cuda
    here = torch.load(path, map_location="cpu")
    assert not here["model"]["0.weight"].is_cuda
    model.load_state_dict(torch.load(path, map_location=device)["model"])

with torch.cuda.device(0), torch.device("cuda"):
    assert torch.zeros(2).is_cuda
state = torch.cuda.get_rng_state()
a = torch.rand(3, device=device)
torch.cuda.set_rng_state(state)
assert torch.equal(a, torch.rand(3, device=device))
generator = torch.Generator(device="cuda").manual_seed(3)
assert torch.randn(2, generator=generator, device="cuda").is_cuda and generator.device.type == "cuda"
with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
    assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == torch.bfloat16
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
    model(torch.randn(2, 3, 8, 8, device=device)).sum().backward()
assert "Self CUDA" in profile.key_averages().table(sort_by="cuda_time_total", row_limit=5)
assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
torch.cuda.empty_cache()
torch.cuda.ipc_collect()
print(torch.cuda.memory_summary().splitlines()[0])
print("done")
