"""Children forked while other threads hold locks, import, or compute."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FORK = """
import os, random, sys, threading, time, warnings
warnings.simplefilter("ignore")
import flambeau as fb

def child(work, limit=20):
    "Forks; the child does the work and must be through in time."
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print(repr(e), file=sys.stderr, flush=True)
            os._exit(1)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, status
            return
        time.sleep(0.001)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    sys.exit("the child hangs")
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", FORK + program], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_locks_that_other_threads_hold_are_free_in_the_child():
    """The allocator's, the generators', the recorder's, and memory that convolutions keep."""
    run("""
from flambeau.profiler import profile, record_function
F = fb.nn.functional
fb.set_num_threads(2)
stop = False

def work():
    fb.rand(20_000).sum()
    k = random.randrange(1, 12)
    x = fb.ones(1, k, random.randrange(3, 30), 5, requires_grad=True)
    F.conv2d(x, fb.ones(random.randrange(1, 9), k, 2, 2)).sum().backward()
    with record_function("a"):
        fb.ones(3) + 1

def forever():
    while not stop:
        work()

with profile():
    for _ in range(4):
        threading.Thread(target=forever, daemon=True).start()
    for _ in range(40):
        child(work)
stop = True
""")


def test_tensors_that_other_threads_use_can_be_used_in_the_child():
    """Pins of free layouts, sums into .grad and half released graphs of threads that are not in the child."""
    run("""
F = fb.nn.functional
fb.set_num_threads(2)
x, w = fb.ones(2, 8, 40, 40), fb.ones(16, 8, 3, 3)
leaf = fb.ones(300, 300, requires_grad=True)
box = [F.conv2d(x, w)]
stop = False

def read():
    while not stop:
        box[0] * 2
def settle():
    while not stop:
        box[0] = F.conv2d(x, w)
        box[0].stride()
def train():
    while not stop:
        (leaf * 2).sum().backward()
for f in (read, read, settle, train, train):
    threading.Thread(target=f, daemon=True).start()

def work():
    assert box[0].stride() == (16 * 38 * 38, 38 * 38, 38, 1)
    box[0].reshape(-1).sum()
    (leaf * 2).sum().backward()
    leaf.data = fb.ones(2, 2)
for _ in range(40):
    child(work)
stop = True
""")


SLOW_IMPORT = """
def slowly(event, args):
    if event == "import" and args[0].startswith("flambeau.nn.modules.") and threading.get_ident() != main:
        time.sleep(0.03)
main = threading.get_ident()
sys.addaudithook(slowly)
"""


def test_a_child_forked_during_a_lazy_import():
    run(SLOW_IMPORT + """
t = threading.Thread(target=lambda: fb.nn)
t.start()
time.sleep(0.1)
assert t.is_alive()
child(lambda: fb.nn.Linear(2, 2)(fb.ones(1, 2)))
t.join()
""")


def test_a_child_forked_during_an_import_by_name():
    run(SLOW_IMPORT + """
import importlib
t = threading.Thread(target=lambda: importlib.import_module("flambeau.nn"))
t.start()
time.sleep(0.1)
assert t.is_alive()
child(lambda: fb.nn.Linear(2, 2)(fb.ones(1, 2)))
t.join()
""")


def test_many_forks_while_threads_import():
    run("""
import importlib
names = [name for name in fb._LAZY if name not in ("compat",)]
threading.Thread(target=lambda: [getattr(fb, name) for name in names], daemon=True).start()
for _ in range(10):
    child(lambda: [getattr(fb, name) for name in ("nn", "optim", "func", "utils")])
""")


def test_a_module_may_fork_while_it_is_imported(tmp_path):
    """Its thread does not wait for others, who may wait for the module."""
    (tmp_path / "forks.py").write_text(
        "import os\nimport flambeau as fb\npid = os.fork()\nif pid == 0:\n    fb.nn\n    os._exit(0)\nos.waitpid(pid, 0)\n"
    )
    run(f"""
sys.path.insert(0, {str(tmp_path)!r})
before = time.monotonic()
import forks
assert time.monotonic() - before < 9
""")


def test_no_other_locks_in_csrc():
    """base/fork.h says why; the pool's locks belong to threads a child has not got, and it makes a new pool."""
    bare = re.compile(r"std::(recursive_|shared_|timed_)*mutex\b|pthread_(mutex|rwlock|spin|atfork)|condition_variable|call_once")
    wrong = []
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.suffix not in (".cpp", ".h") or path.name in ("fork.h", "fork.cpp", "pool.cpp"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if bare.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "use Mutex or SpinLock of base/fork.h:\n" + "\n".join(wrong)


def test_python_is_entered_where_the_end_of_the_interpreter_is_caught():
    """Note [Threads at exit] in bindings/interpreter.h."""
    bare = re.compile(
        r"(?<!<)\b(PyObject_Call\w*|PyObject_Vectorcall|PyImport_ImportModule)\("
        r"|Py_(BEGIN|END)_ALLOW_THREADS|PyEval_SaveThread|PyGILState_Ensure"
    )
    wrong = []
    for path in sorted((ROOT / "csrc/bindings").glob("*.cpp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if bare.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "use in_python<…>, Unlocked or Lock:\n" + "\n".join(wrong)
