# `make` alone lists what there is. Every target sets up what it needs first: a virtual environment,
# torch, the pinned packages, this package, the native kernels. Stamp files remember what is done.

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# Errors only; a failing command still says why.
PIP := $(PYTHON) -m pip -qq --disable-pip-version-check
TORCH := torch==2.13.0
TRITON := triton==3.9.0

NATIVE := src/chronode/kernels/native
LIBRARIES := src/chronode/kernels/lib
# AVX-512 kernels take long to compile: here only where they can run. Wheels have all.
ISAS := baseline;v3$(if $(shell grep -m 1 -o avx512bw /proc/cpuinfo 2> /dev/null),;v4)
CONFIGURE := $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja '-DCHRONODE_ISAS=$(ISAS)'

INSTALLED := $(VENV)/dependencies.stamp
PACKAGED := $(VENV)/package.stamp
COMPILED := build/kernels.stamp
READY := build/ready.stamp
WITH_TRITON := $(VENV)/triton.stamp
STARTED := $(shell date +%s)
# The pinned versions without their hashes: with one hash among its constraints, pip wants one for torch as well, whose
# build depends on the machine.
UNHASHED = mkdir -p build && sed -n 's/ *\\$$//; /^[a-z]/p' requirements.lock > build/constraints.txt

# One process per core; more threads in each would only wait for one another.
WORKERS := 2
PYTEST := OMP_NUM_THREADS=1 $(PYTHON) -m pytest -q

.PHONY: help setup demo test test-slow test-gpu test-asan test-tsan lint format bench gpu-report results docs gallery wheel lock clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo       train three models on an event stream and compare them'
	@echo 'make test       lint, and every test that is not slow'
	@echo 'make test-slow  the slow tests'
	@echo 'make test-gpu   the kernels for a GPU: interpreted and compiled, and run if there is one; writes a report'
	@echo 'make test-asan  the kernel tests with the address and undefined-behavior sanitizers'
	@echo 'make test-tsan  the thread pool and a kernel with the thread sanitizer'
	@echo 'make lint       ruff and the type checker'
	@echo 'make format     let ruff repair layout and imports'
	@echo 'make bench      time the models'
	@echo 'make gpu-report write the compiler report of the GPU kernels to benchmarks/gpu.md'
	@echo 'make results    write RESULTS.md and results/index.html from the ledger of runs'
	@echo 'make docs       build the site into build/site; a broken link or reference fails'
	@echo 'make gallery    run the examples of the gallery and write their pages'
	@echo 'make wheel      build a wheel, install it into an empty environment and try it there'
	@echo 'make setup      only the set-up that the others begin with'
	@echo 'make lock       resolve the pinned packages again'
	@echo 'make clean      remove everything built; $(VENV) stays'

demo: $(READY)
	@$(BIN)/chronode demo

test: lint
	@$(PYTEST) -n $(WORKERS)

test-slow: $(READY)
	@$(PYTEST) -n $(WORKERS) -m slow

# Without a GPU the kernels run on the CPU by Triton's interpreter, and are compiled for GPUs that are not here. With
# one they run there and are timed. Either way a report says what was run: send it back from a machine with a GPU.
test-gpu: $(READY) $(WITH_TRITON)
	@TRITON_CACHE_DIR=$(CURDIR)/build/triton OMP_NUM_THREADS=1 PYTHONPATH=benchmarks \
	    $(PYTHON) -m chronode_bench.gpu_test -o build/gpu-test.md -- -q -n $(WORKERS) --dist worksteal -m gpu tests/compiler

gpu-report: $(READY) $(WITH_TRITON)
	@TRITON_CACHE_DIR=$(CURDIR)/build/triton PYTHONPATH=benchmarks $(PYTHON) -W ignore -m chronode_bench.gpu -o benchmarks/gpu.md

# triton does not depend on torch, and must not bring another one.
$(WITH_TRITON): $(INSTALLED)
	@$(PIP) install --no-deps $(TRITON)
	@touch $@

# One instruction set, and of the tests those in which a kernel could leave its arrays. The sanitizer's runtime must be
# in the process before Python is, and needs the C++ runtime next to it. Then compiled steps, built with the sanitizers.
ASAN_TESTS := $(addprefix tests/kernels/test_,native_base.py bounds.py every_kernel.py safety.py)
test-asan: $(READY)
	@$(CONFIGURE) -B build/asan -DCHRONODE_SANITIZE=ON '-DCHRONODE_ISAS=$(lastword $(filter-out v4,$(subst ;, ,$(ISAS))))' \
	    > /dev/null
	@$(BIN)/cmake --build build/asan -- --quiet
	@CHRONODE_KERNELS_DIR=$(CURDIR)/build/asan ASAN_OPTIONS=detect_leaks=0 \
	    LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)" \
	    $(PYTEST) --capture=sys $(ASAN_TESTS) -k 'not compile and not sound_operator and not double_backward'
	@CHRONODE_KERNELS_DIR=$(CURDIR)/build/asan ASAN_OPTIONS=detect_leaks=0 CHRONODE_CACHE=$(CURDIR)/build/asan/cache \
	    CHRONODE_CXXFLAGS='-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all' \
	    LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)" \
	    $(PYTEST) --capture=sys tests/compiler/test_random_cells.py tests/compiler/test_models.py

# A program of its own: Python and torch would report races of their own.
test-tsan:
	@mkdir -p build/tsan
	@$${CXX:-g++} -std=c++17 -O1 -g1 -fsanitize=thread tests/kernels/native/threads.cpp -o build/tsan/threads -pthread -ldl
	@TSAN_OPTIONS='die_after_fork=0 halt_on_error=1' build/tsan/threads

lint: $(READY)
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(BIN)/pyrefly check --python-interpreter-path $(PYTHON)
	@$(BIN)/pyrefly check -c tests/pyrefly.toml --python-interpreter-path $(PYTHON)

format: $(READY)
	@$(PYTHON) -m ruff check --fix
	@$(PYTHON) -m ruff format

bench: $(READY)
	@$(BIN)/chronode bench --memory --output benchmarks/bench

results: $(READY)
	@$(BIN)/chronode results

docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'build/site/index.html'

gallery: $(READY)
	@$(PYTHON) docs/build_gallery.py

# All instruction sets, as a release has them; tried outside the source tree, in an environment of its own.
wheel: $(READY)
	@rm -rf dist build/wheel-try
	@$(PYTHON) packaging/prebuild.py build/prebuilt
	@$(PIP) wheel --no-deps --no-build-isolation --config-settings=cmake.define.CHRONODE_ISAS=all \
	    --config-settings=cmake.define.CHRONODE_PREBUILT=$(CURDIR)/build/prebuilt -w dist .
	@python3 -m venv build/wheel-try
	@$(UNHASHED)
	@build/wheel-try/bin/python -m pip -qq --disable-pip-version-check install $(TORCH) -c build/constraints.txt
	@build/wheel-try/bin/python -m pip -qq --disable-pip-version-check install dist/*.whl \
	    'torchdiffeq>=0.2.4' -c build/constraints.txt
	@cd build/wheel-try && bin/python $(CURDIR)/tests/smoke.py
	@ls -lh dist/*.whl

setup: $(READY)

$(READY): $(INSTALLED) $(PACKAGED) $(COMPILED)
	@status=$$($(PYTHON) -c 'from chronode.kernels._library import status; print(status())') && \
	    echo "set-up ... done ($$(($$(date +%s) - $(STARTED))) s; $$status)"
	@touch $@

$(PYTHON):
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo 'chronode needs Python 3.10 or newer, and python3 is older: put a newer one first in PATH'; exit 1; }
	@python3 -m venv --clear $(VENV)

# torch comes first and pinned: pip then takes the build that fits this machine, where an open range may
# pull in gigabytes of CUDA libraries.
$(INSTALLED): requirements.lock | $(PYTHON)
	@echo 'set-up: $(TORCH), then the pinned packages (minutes the first time) ...'
	@$(PIP) install 'pip>=22'
	@$(UNHASHED)
	@$(PIP) install $(TORCH) -c build/constraints.txt
	@$(PIP) install -r requirements.lock
	@touch $@

$(PACKAGED): pyproject.toml src/chronode/_version.py $(INSTALLED)
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# The old libraries are removed first: overwriting one in place would crash a process that runs it.
$(COMPILED): CMakeLists.txt $(NATIVE) $(wildcard $(NATIVE)/*) $(INSTALLED)
	@$(CONFIGURE) -B build/native > /dev/null
	@$(BIN)/cmake --build build/native -- --quiet
	@rm -rf $(LIBRARIES)
	@$(BIN)/cmake --install build/native --prefix src > /dev/null
	@touch $@

# No compiler the last time: look for one again.
ifneq ($(wildcard $(LIBRARIES)/none.txt),)
.PHONY: $(COMPILED)
CONFIGURE += --fresh
endif

# Every Python from 3.10 on and every platform in one file; torch and what only its CUDA build needs stay out.
lock:
	@python3 -m venv build/lock
	@build/lock/bin/python -m pip install -qq uv
	@echo '$(TORCH)' > build/lock/torch.txt
	@build/lock/bin/uv pip compile -q pyproject.toml --extra dev --constraint build/lock/torch.txt \
	    --universal --python-version 3.10 --native-tls --no-annotate --no-header --generate-hashes --upgrade \
	    -o build/lock/resolved.txt
	@echo '# Made by `make lock` from pyproject.toml; torch is installed before these, see the Makefile.' \
	    > requirements.lock
	@awk '/^[^ ]/ { left_out = /^(torch==|triton==|nvidia-|cuda-)/ } !left_out' build/lock/resolved.txt >> requirements.lock

clean:
	@rm -rf build dist $(LIBRARIES) .pytest_cache .ruff_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true
