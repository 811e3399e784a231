"""The CUDA driver without a GPU: NVRTC compiles what ops generate for every architecture, and the driver's calls run
against a strict stand-in for libcuda (fake_cuda.cpp), whose kernels are compiled as C++."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import flambeau as fb
from flambeau import _C

pytestmark = pytest.mark.device(None)
HERE = Path(__file__).parent
ARCHITECTURES = ("sm_50", "sm_75", "sm_80", "sm_90", "sm_120")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fake_cuda")
    library = folder / "libfake_cuda.so"
    command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-w", "-o", library, HERE / "fake_cuda.cpp"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("there is no C++ compiler")
    return {
        **os.environ, "FLAMBEAU_CUDA": str(library), "FLAMBEAU_NVRTC": str(library), "FAKE_CUDA_FOLDER": str(folder),
        "FLAMBEAU_CACHE_DIR": str(folder / "cache"), "FLAMBEAU_TEST_DEVICES": "cuda",
    }  # fmt: skip


def run(environment, script, **more):
    script = (
        "import ctypes, os, warnings\nwarnings.simplefilter('ignore')\nimport flambeau as fb\n"
        "fake = ctypes.CDLL(os.environ['FLAMBEAU_CUDA'])\nfake.fake_violations.restype = ctypes.c_char_p\n"
        + script
        + "\nprint(fake.fake_violations().decode() or 'clean')"
    )
    return subprocess.run(
        [sys.executable, "-c", script], env={**environment, **more}, capture_output=True, text=True, timeout=200
    )


def test_groups_streams_and_errors_on_the_stand_in(environment):
    files = [str(HERE / name) for name in ("test_groups.py", "test_streams.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, cwd=HERE.parent.parent)
    assert found.returncode == 0, found.stdout[-4000:]
    assert "cuda: clean" in found.stdout, found.stdout[-2000:]  # the conftest asks the stand-in for what it refused


def test_ops_of_users_and_the_profiler_on_the_stand_in(environment):
    script = """
x = fb.ones(64, 64, device='cuda')
scale = fb.accelerator.formula('scale(x, a) = a * x')
shift = fb.accelerator.kernel('shift(Tensor x) -> Tensor', 'STORE_out(item, item > 0 ? LOAD_x(item - 1) : (T)7);')
scale(x, 2.0).sum().item()
with fb.profiler.profile() as p:
    y = scale(x, 3.0)
    z = shift(y).cpu()
print(z[0, :2].tolist())
on = {e.name: e for e in p.events() if e.on_device}
print(sorted(on), all(e.device_type == fb.profiler.DeviceType.CUDA for e in on.values()))
print(on['scale (kernel)'].end_ns <= on['shift (kernel)'].start_ns, on['scale (kernel)'].self_device_time_total > 0)
print('Self CUDA time total' in p.key_averages().table())"""
    said = run(environment, script)
    names = ["Memcpy DtoH", "scale (kernel)", "shift (kernel)"]
    assert said.stdout == f"[7.0, 3.0]\n{names} True\nTrue True\nTrue\nclean\n", said.stdout + said.stderr


def test_a_device_describes_itself(environment):
    said = run(environment, "print(fb._C.cuda_devices()[0]['name'], fb.zeros(2, device='cuda').device, fb.device('gpu'))")
    assert said.stdout == "Fake GPU cuda:0 cuda:0\nclean\n", said.stderr


def test_fills_of_every_size_and_copies_that_overlap(environment):
    script = """
for dtype in (fb.bool, fb.int16, fb.float32, fb.float64, fb.complex128):
    assert fb.full((1000,), 1, dtype=dtype, device='cuda').cpu().equal(fb.full((1000,), 1, dtype=dtype)), dtype
x = fb.arange(1000., device='cuda')
x[10:510] = x[0:500].clone()
x[1:].copy_(x[:-1])
y = fb.arange(1000.); y[10:510] = y[0:500].clone(); y[1:] = y[:-1].clone()
print(x.cpu().equal(y))"""
    said = run(environment, script)
    assert said.stdout == "True\nclean\n", said.stderr


def test_out_of_memory_releases_the_cache_and_says_what_is_used(environment):
    script = """
x = fb.empty(20 << 20, dtype=fb.uint8, device='cuda'); del x
y = fb.empty(50 << 20, dtype=fb.uint8, device='cuda')  # fits if the cached 20 MB are released
print(fb.accelerator.memory_stats('cuda')['num_alloc_retries'])
try:
    fb.empty(60 << 20, dtype=fb.uint8, device='cuda')
except MemoryError as error:
    print(type(error).__name__, 'cuda:0' in str(error), 'reserved' in str(error))
print((y[:3] * 0 + 1).tolist())"""
    said = run(environment, script, FAKE_CUDA_MEMORY=str(64 << 20))
    assert said.stdout == "1\nOutOfMemoryError True True\n[1, 1, 1]\nclean\n", said.stdout + said.stderr


@pytest.mark.parametrize(
    "failure, what",
    [("LaunchKernel:4:700", "cuLaunchKernel"), ("MemcpyHtoDAsync:3:1", "cuMemcpyHtoDAsync"), ("EventQuery:9:719", "cuEventQuery")],
)
def test_failures_of_the_driver_are_errors(environment, failure, what):
    script = """
try:
    for i in range(50):
        (fb.ones(4).to('cuda') + i).cpu()
    print('nothing failed')
except RuntimeError as error:
    print(error)"""
    said = run(environment, script, FAKE_CUDA_FAIL=failure)
    assert f"the CUDA device failed in {what}: CUDA_ERROR_OF_THE_FAKE ({failure.split(':')[2]})" in said.stdout, said.stdout + said.stderr


def test_a_device_that_fails_the_probe_is_rejected(environment):
    script = "print(fb._C.accelerator_count(fb.device('cuda')), fb._C.cuda_devices()[0]['rejected'])"
    said = run(environment, script, FAKE_CUDA_FAIL="LaunchKernel:1:700")
    assert said.stdout.startswith("0 ") and "cuLaunchKernel" in said.stdout, said.stdout + said.stderr


@pytest.mark.skipif(not _C.cuda_compiler(), reason="NVRTC is not installed")
def test_nvrtc_compiles_every_family_for_every_architecture():
    """One op or two of each family; tests/accelerator/test_every_kernel.py builds the others in OpenCL's dialect."""
    device = "opencl" if fb.opencl.is_available() else "sim"
    already = set(_C.accelerator_assembled("cuda"))
    f = fb.nn.functional
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no kernel on device")
        fb.manual_seed(0)
        x = fb.randn(4, 6, device=device)
        image, weight = fb.randn(1, 2, 6, 6, device=device), fb.randn(3, 2, 3, 3, device=device)
        index = fb.tensor([1, 0], device=device)
        families = {
            "loop": lambda: x.exp() + x * 2, "half": lambda: x.half().sigmoid(), "integers": lambda: x.int() // 3,
            "reduce": lambda: (x.sum(), x.amax(0), x.double().var()), "scan": lambda: x.cumsum(1), "product": lambda: x @ x.t(),
            "gather": lambda: x.gather(0, index.view(2, 1)), "scatter": lambda: x.index_add(0, index, x[:2]),
            "compact": lambda: x[x > 0],
            "sort": lambda: (x.sort(1), x.topk(2)),
            "convolution": lambda: f.conv2d(image, weight), "pooling": lambda: f.max_pool2d(image, 2),
            "norm": lambda: f.layer_norm(x, (6,)), "batch": lambda: f.batch_norm(image, None, None, training=True),
            "random": lambda: fb.rand(5, device=device), "softmax": lambda: f.cross_entropy(x, fb.tensor([0, 1, 2, 3], device=device)),
        }  # fmt: skip
        parameter = fb.ones(3, device=device, requires_grad=True)
        optimizer = fb.optim.Adam([parameter])
        parameter.sum().backward()
        for op in (*families.values(), optimizer.step):
            op()
    sources = [s for s in _C.accelerator_assembled("cuda") if s not in already] or list(already)
    assert len(sources) >= 20 or already
    for i, source in enumerate(sources):
        architectures = ARCHITECTURES if i % 4 == 0 else [ARCHITECTURES[i % 5]]  # each has its turn
        for architecture in architectures:
            assert _C.cuda_compile(source, architecture)[:4] == b"\x7fELF"
    with pytest.raises(RuntimeError, match="NVRTC:(.|\n)*wrong_name"):
        _C.cuda_compile(sources[0] + "\nint f() { return wrong_name; }", "sm_80")
