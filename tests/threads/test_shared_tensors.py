"""Tensors, gradients and graphs that several threads use at once: nothing crashes, nothing is torn."""

import sys
import threading
import time

import pytest

import flambeau as fb

SECONDS = 1.5  # of each stress test


LARGE = 1_000_000  # elements: an op on them takes long enough for others to get in between


@pytest.fixture(autouse=True)
def busy():
    n, interval = fb.get_num_threads(), sys.getswitchinterval()
    fb.set_num_threads(2)
    sys.setswitchinterval(1e-5)
    yield
    fb.set_num_threads(n)
    sys.setswitchinterval(interval)


def together(*jobs, seconds=SECONDS):
    """Runs each job again and again on a thread of its own; raises what any of them raised."""
    end, errors = time.monotonic() + seconds, []

    def repeat(job):
        try:
            while time.monotonic() < end and not errors:
                job()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    if errors:
        raise errors[0]


def spoil(n):
    """Takes memory that was freed just now and writes to its end, where a reader comes last."""
    fb.empty(n)[-n // 3 :] = 7.0


class Box:
    """What one thread makes for all others to use."""


def test_a_free_layout_is_settled_by_one_while_others_read_it():
    """Results of convolutions are channels-last until their strides are read: then their memory and strides change."""
    image, weight = fb.randn(2, 4, 160, 160), fb.randn(16, 4, 3, 3)
    expected = fb.nn.functional.conv2d(image, weight).contiguous()
    doubled, flat = expected * 2, expected.reshape(-1)
    box = Box()
    box.y = fb.nn.functional.conv2d(image, weight)

    def renew():
        box.y = fb.nn.functional.conv2d(image, weight)

    def read_as_it_is():
        assert fb.equal(box.y * 2, doubled)

    def look():
        y = box.y
        y.stride()
        spoil(flat.numel())
        assert y.stride() == expected.stride()
        assert fb.equal(y.reshape(-1), flat)

    together(renew, read_as_it_is, read_as_it_is, look)


def test_free_layouts_in_two_backwards():
    x = fb.randn(2, 8, 24, 24)
    weight = fb.randn(16, 8, 3, 3)
    box = Box()

    def renew():
        box.y = fb.nn.functional.conv2d(x, weight)
        time.sleep(0.0003)

    renew()
    expected = fb.nn.functional.relu(box.y.contiguous()).sum()

    def train():
        y = box.y
        scale = fb.ones(1, requires_grad=True)
        (fb.nn.functional.relu(y) * scale).sum().backward()
        fb.testing.assert_close(scale.grad[0], expected, rtol=1e-4, atol=1e-2)

    def look():
        assert box.y.is_contiguous()

    together(renew, train, train, look)


def test_data_is_replaced_while_others_compute():
    x = fb.ones(LARGE)

    def read():
        assert x.sum().item() in (LARGE, 2.0 * LARGE, 6.0 * LARGE)

    def swap():
        x.data = fb.full((LARGE,), 2.0)
        x.data = fb.full((2, LARGE), 3.0)
        x.data = fb.ones(LARGE)

    together(read, read, swap)


def test_set_and_resize_while_others_compute():
    x = fb.zeros(LARGE)

    def read():
        assert x.sum().item() == 0

    def change():
        x.set_(fb.zeros(LARGE))
        spoil(LARGE)
        x.resize_(LARGE // 100, 100)
        x.t_()
        x.set_(fb.zeros(LARGE // 2))
        spoil(LARGE)

    together(read, read, change)


def test_memory_moves_while_others_read_it():
    box = Box()

    n = 4 * LARGE

    def read():
        assert box.x.sum().item() == n

    def move():
        box.x = x = fb.ones(n)
        x.share_memory_()
        spoil(n)

    move()
    together(read, read, read, move)


@pytest.mark.slow_sanitized  # elements are written while others read them, which ThreadSanitizer reports
def test_out_changes_its_shape_while_others_read_it():
    a, b = fb.ones(20_000), fb.ones(30, 20_000)
    out = fb.empty(0)

    def write():
        fb.add(a, a, out=fb.empty(0))
        out.resize_(0)
        fb.add(a, a, out=out)
        out.resize_(0)
        fb.add(b, b, out=out)

    def read():
        assert out.sum().item() >= 0

    together(write, read, read)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_several_threads_are_summed(create_graph):
    x = fb.ones(300, 100, requires_grad=True)
    rounds, threads = 40, 4
    start = threading.Barrier(threads)

    def work():
        start.wait()
        for _ in range(rounds):
            (x * 2).sum().backward(create_graph=create_graph)

    crowd = [threading.Thread(target=work) for _ in range(threads)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join(60)
    assert fb.equal(x.grad, fb.full_like(x, 2.0 * rounds * threads))
    x.grad = None


def test_grad_is_read_and_replaced_while_backward_runs():
    x = fb.ones(200, 200, requires_grad=True)

    def train():
        (x * 3).sum().backward()

    def look():
        g = x.grad
        assert g is None or g.shape == x.shape
        x.grad = None

    together(train, train, look)


def test_one_graph_for_two_threads():
    """The second to come finds that what the graph kept is gone, or is in time."""
    failures = []

    def rounds():
        x = fb.randn(100, 200, requires_grad=True)
        y = (x.exp() * x.sin()).tanh().sum()
        (expected,) = fb.autograd.grad(y, x, retain_graph=True)

        def back():
            try:
                (g,) = fb.autograd.grad(y, x)
                assert fb.equal(g, expected)
            except RuntimeError as e:
                if "second time" not in str(e):
                    failures.append(e)
            except BaseException as e:
                failures.append(e)

        pair = [threading.Thread(target=back) for _ in range(2)]
        for t in pair:
            t.start()
        for t in pair:
            t.join()

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        rounds()
    assert not failures


def test_hooks_come_and_go_while_backward_runs():
    x = fb.ones(64, 64, requires_grad=True)
    y = (x * 2).exp()
    loss = y.sum()

    def train():
        loss.backward(retain_graph=True)

    def hooks():
        handles = [t.register_hook(lambda g: None) for t in (x, y) for _ in range(50)]
        handles.append(y.grad_fn.register_prehook(lambda grads: None))
        handles.append(x.register_post_accumulate_grad_hook(lambda t: None))
        for h in handles:
            h.remove()

    together(train, train, hooks)


def test_views_catch_up_with_their_base_on_two_threads():
    base = fb.zeros(200, 100, requires_grad=True) * 1
    box = Box()

    def renew():
        changed = base.clone()
        view = changed[10:]
        changed.mul_(3)
        box.view = view

    renew()

    def use():
        view = box.view
        assert view.requires_grad
        assert (view * 2).grad_fn is not None and view.grad_fn is not None

    together(renew, use, use)


def test_a_change_waits_for_a_long_backward_only_between_two_ops():
    """`.data =` in a hook, and on another thread, while a backward of many nodes runs."""
    x = fb.ones(100, 100, requires_grad=True)
    other = fb.ones(10)
    y = x
    for _ in range(300):
        y = y.sin()
    done = threading.Event()
    x.register_hook(lambda g: setattr(other, "data", fb.zeros(3)))

    def train():
        for _ in range(5):
            y.sum().backward(retain_graph=True)
        done.set()

    t = threading.Thread(target=train)
    t.start()
    changes = 0
    while not done.is_set():
        other.data = fb.zeros(4)
        changes += 1
    t.join()
    assert changes > 0


def test_two_threads_draw_different_numbers():
    g = fb.Generator().manual_seed(3)
    drawn, lock = [], threading.Lock()

    def draw():
        mine = [tuple(fb.randint(0, 2**62, (2,), generator=g).tolist()) for _ in range(50)]
        with lock:
            drawn.extend(mine)

    together(draw, draw, draw, seconds=0.5)
    assert len(set(drawn)) == len(drawn)
