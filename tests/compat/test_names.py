"""Names that scripts lean on although there is no GPU, compiler or process group."""

import pickle
import time

import pytest

import flambeau as fb


@pytest.mark.parametrize(
    "path",
    """
    optim.lr_scheduler._LRScheduler nn.modules.utils._pair nn.init._calculate_fan_in_and_fan_out nn.modules.batchnorm._BatchNorm
    nn.modules.loss._Loss autograd.Variable FloatTensor LongTensor Tensor.data serialization.save save load version.cuda
    utils.model_zoo.load_url utils.hooks.RemovableHandle utils.dlpack.from_dlpack set_float32_matmul_precision
    use_deterministic_algorithms cuda.amp.autocast cuda.amp.GradScaler cuda.nvtx.range_push jit.script compiler.disable compile
    distributed.is_available backends.cuda.matmul.allow_tf32 hub.load accelerator.is_available xpu.is_available
    """.split(),
)
def test_name_resolves(path):
    value = fb
    for part in path.split("."):
        value = getattr(value, part)


def test_there_is_no_gpu():
    assert not fb.cuda.is_available() and fb.cuda.device_count() == 0
    assert not fb.backends.mps.is_available() and fb.distributed.is_available()
    assert fb.cuda.max_memory_allocated() == 0 and fb.cuda.memory_stats() == {}
    fb.cuda.synchronize(), fb.cuda.empty_cache(), fb.cuda.manual_seed_all(3), fb.cuda.set_device(-1)
    with pytest.raises(TypeError):
        fb.cuda.manual_seed_all(None)


@pytest.mark.parametrize("call", ["current_device()", "get_device_name(0)", "set_device(0)", "device(0)", "FloatTensor(2)", "init()"])
def test_asking_for_a_gpu_is_an_error(call):
    with pytest.raises(RuntimeError, match="there is no CUDA device"):
        eval(f"fb.cuda.{call}")


def test_event_measures_time():
    start, end = fb.cuda.Event(enable_timing=True), fb.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    time.sleep(0.02)
    end.record()
    assert 15 < start.elapsed_time(end) < 5000
    with pytest.raises(RuntimeError, match="enable_timing"):
        start.elapsed_time(fb.cuda.Event())


def test_stream_block():
    side = fb.cuda.Stream()
    with fb.cuda.stream(side):
        assert fb.cuda.current_stream() is side
        with fb.cuda.stream(None):
            assert fb.cuda.current_stream() is side
    assert fb.cuda.current_stream() is fb.cuda.default_stream()


def test_amp_for_cuda_switches_itself_off():
    with pytest.warns(UserWarning, match="no cuda device"):
        cast = fb.cuda.amp.autocast()
    with cast:
        assert (fb.ones(2, 2) @ fb.ones(2, 2)).dtype == fb.float32
    with pytest.warns(UserWarning, match="no cuda device"):
        scaler = fb.cuda.amp.GradScaler()
    p = fb.ones(1, requires_grad=True)
    optimizer = fb.optim.SGD([p], lr=1.0)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == 0.0


def test_switches_are_kept_and_put_back():
    cudnn = fb.backends.cudnn
    before = cudnn.benchmark
    with cudnn.flags(benchmark=not before):
        assert cudnn.benchmark is not before
    assert cudnn.benchmark is before
    with pytest.raises(TypeError, match="speed"):
        cudnn.set_flags(speed=11)
    with fb.backends.cuda.sdp_kernel(enable_math=False):
        assert not fb.backends.cuda.math_sdp_enabled()
    assert fb.backends.cuda.math_sdp_enabled()


def test_the_deterministic_switch_is_kept():
    try:
        for call, state in (
            (lambda: fb.use_deterministic_algorithms(True), (True, False, 2)),
            (lambda: fb.use_deterministic_algorithms(True, warn_only=True), (True, True, 1)),
            (lambda: fb.use_deterministic_algorithms(False, warn_only=True), (False, True, 0)),
            (lambda: fb.set_deterministic_debug_mode("error"), (True, False, 2)),
            (lambda: fb.set_deterministic_debug_mode(0), (False, False, 0)),
        ):
            call()
            warn_only = fb.is_deterministic_algorithms_warn_only_enabled()
            assert (fb.are_deterministic_algorithms_enabled(), warn_only, fb.get_deterministic_debug_mode()) == state
        with pytest.raises(ValueError, match="expected 'default'"):
            fb.set_deterministic_debug_mode("loud")
        with pytest.raises(TypeError, match=r"argument 'mode' \(position 1\) must be bool, not int"):
            fb.use_deterministic_algorithms(1)
        with pytest.raises(TypeError, match="argument 'warn_only' must be bool, not int"):
            fb.use_deterministic_algorithms(False, warn_only=1)
    finally:
        fb.use_deterministic_algorithms(False)


def test_what_was_built_can_be_asked_under_the_other_name():
    with fb.compat.torch() as torch:
        assert torch.__config__.show() == str(fb.show_config())
        assert torch.__config__.parallel_info().startswith("threads")


def test_jit_passes_through():
    class Net(fb.nn.Module):
        @fb.jit.export
        def extra(self, x):
            return x + 1

        @fb.jit.ignore(drop=True)
        def forward(self, x):
            return x * 2 if not fb.jit.is_scripting() else x

    net = Net()
    assert fb.jit.script(net) is net and fb.jit.trace(net, (fb.ones(2),)) is net
    assert net(fb.ones(1)).item() == 2.0 and net.extra(fb.ones(1)).item() == 2.0
    assert fb.jit.isinstance({"a": [1]}, dict[str, list[int]]) and not fb.jit.isinstance({"a": ["b"]}, dict[str, list[int]])
    assert fb.jit.isinstance((1, "a"), tuple[int, str]) and not fb.jit.isinstance((1,), tuple[int, str])
    with pytest.raises(RuntimeError):
        fb.jit.trace(fb.matmul, (fb.ones(2, 3), fb.ones(2, 3)))
    with pytest.raises(RuntimeError, match="training mode"):
        fb.jit.freeze(net)


def test_compile_returns_the_model_and_says_so_once(capsys):
    fb.compiler._notice.cache_clear()
    net = fb.nn.Linear(2, 2)
    assert fb.compile(net, mode="max-autotune") is net

    @fb.compile(fullgraph=True)
    def double(x):
        return x * 2

    assert double(fb.ones(1)).item() == 2.0
    assert capsys.readouterr().err.count("no compiler yet") == 1
    with pytest.raises(TypeError, match="module or function"):
        fb.compile(3)


def test_hub_loads_from_a_folder_and_never_downloads(tmp_path, monkeypatch):
    (tmp_path / "helper.py").write_text("import flambeau\nmake = flambeau.nn.Linear\n")
    (tmp_path / "hubconf.py").write_text("def net(n):\n    'Doc.'\n    import helper\n    return n\n")
    assert fb.hub.list(tmp_path, source="local") == ["net"]
    assert fb.hub.help(tmp_path, "net", source="local") == "Doc."
    with pytest.raises(ModuleNotFoundError):
        fb.hub.load(tmp_path, "net", 3, source="local")  # the folder is importable only while hubconf is
    (tmp_path / "hubconf.py").write_text("from helper import make\n\ndef net(n):\n    return make(n, 1)\n")
    assert fb.hub.load(tmp_path, "net", 3, source="local").in_features == 3
    with pytest.raises(RuntimeError, match="no entry 'other'"):
        fb.hub.load(tmp_path, "other", source="local")
    monkeypatch.setattr(fb.hub, "_folder", str(tmp_path / "hub"))
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        fb.hub.load("owner/name", "net")
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        fb.hub.load_state_dict_from_url("https://host/net.pt")
    with pytest.raises(ValueError, match="force_reload"):
        fb.hub.load(tmp_path, "net", 3, source="local", force_reload=True)


def test_hub_checks_the_hash_of_weights(tmp_path):
    import hashlib

    fb.save({"w": fb.ones(2)}, tmp_path / "net.pt")
    digest = hashlib.sha256((tmp_path / "net.pt").read_bytes()).hexdigest()
    good = (tmp_path / "net.pt").rename(tmp_path / f"net-{digest[:8]}.pt")
    loaded = fb.hub.load_state_dict_from_url(f"https://host/{good.name}", model_dir=tmp_path, check_hash=True)
    assert loaded["w"].tolist() == [1.0, 1.0]
    good.rename(tmp_path / "net-00000000.pt")
    with pytest.raises(RuntimeError, match="does not fit its name"):
        fb.hub.load_state_dict_from_url("https://host/net-00000000.pt", model_dir=tmp_path, check_hash=True)


def test_benchmark_timer():
    benchmark = fb.utils.benchmark
    timer = benchmark.Timer("time.sleep(0.002)", globals={"time": time}, label="nap", sub_label="short", description="a")
    once = timer.timeit(3)
    assert 0.002 <= once.median < 1 and once.number_per_run == 3
    blocked = timer.blocked_autorange(min_run_time=0.02)
    assert 0.002 <= blocked.mean < 1 and sum(blocked.raw_times) >= 0.02
    adaptive = timer.adaptive_autorange(threshold=0.9, max_run_time=1.0)
    assert 0.002 <= adaptive.median < 1 and len(adaptive.raw_times) >= 4
    table = str(benchmark.Compare([once, blocked]))
    assert "[nap, times in ms]" in table and "short" in table
    assert "Median" in repr(blocked) and pickle.loads(pickle.dumps(blocked)).median == blocked.median
    with pytest.raises(TypeError, match="string"):
        benchmark.Timer(print)


def test_timer_uses_its_number_of_threads_and_puts_it_back():
    seen, before = [], fb.get_num_threads()
    fb.utils.benchmark.Timer("seen.append(n())", globals={"seen": seen, "n": fb.get_num_threads}, num_threads=1).timeit(2)
    assert set(seen) == {1} and fb.get_num_threads() == before


def test_collect_env_names_what_matters():
    text = fb.utils.collect_env.get_pretty_env_info()
    assert f"flambeau {fb.__version__}" in text and "numpy==" in text and "processor" in text
