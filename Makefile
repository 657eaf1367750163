# `make demo` and `make test` need only python3 (3.11 or newer) and make: each sets up what it uses.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS = $$($(BIN)/python -c 'import os; print(1 + os.cpu_count())')  # one more than cores: some tests wait
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
SIMULATORS = minigrid minatar ale-py highway-env 'gymnasium[box2d]' 'gymnasium[mujoco]'
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: demo test tests types compiled quick slow examples coverage bench docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/core.stamp
	$(BIN)/tensorplan list
	$(BIN)/tensorplan plan hanoi/8
	$(BIN)/tensorplan compare hanoi/8 --planners tensorplan,uct,random --budget 300 --seeds 3 --max-steps 2000
	$(BIN)/tensorplan compare layered/4x10 --planners tensorplan,uct,sparse-sampling,random,oracle --seeds 5
	$(BIN)/tensorplan plan layered-stochastic/2x3 --delta 0.5
	$(BIN)/tensorplan constants --A 2 --d 3 --H 5 --delta 0.5 --B 1
	$(BIN)/tensorplan sweep examples/sweep.yaml --out demo --resume
	$(BIN)/tensorplan trace hanoi/4 --out demo/trace.html
	@echo "a page on the sweep: $$($(BIN)/tensorplan report demo)"

test: $(VENV)/dev.stamp
	$(MAKE) -j2 tests types

tests: compiled
	$(PYTEST) -rs

types: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

compiled: $(VENV)/dev.stamp  # once, not in each process
	$(BIN)/python -c 'from tensorplan.optimism.search import compile_now; compile_now()'

quick: compiled  # what a developer runs all day: under a minute
	$(BIN)/ruff check .
	$(PYTEST) -m 'not slow and not thorough'

coverage: compiled
	$(PYTEST) --cov --cov-report=term:skip-covered

tests/thorough.txt: $(VENV)/dev.stamp  # the tests that make quick leaves out; remade with make -B
	$(PYTEST) --durations=0 | $(BIN)/python tests/support/thorough.py > $@

slow: $(VENV)/dev.stamp  # the tests that take minutes: all examples in full, compiled code with bounds checks
	$(PYTEST) -m slow

examples: $(VENV)/dev.stamp  # every example runs, and prints what its page says
	$(PYTEST) -m 'slow or not slow' tests/test_examples.py

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the documentation: file://$(CURDIR)/site/index.html"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tensorplan needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# --no-compile: Python compiles the few modules that are imported when they are, which takes less time
$(VENV)/core.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

# simulators of others: where there is no wheel of one, its tests are skipped
$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) --only-binary :all: -e ".[dev,simulators]" || { $(PIP) -e ".[dev]" && for each in $(SIMULATORS); do \
	    $(PIP) --only-binary :all: $$each || echo "there is no wheel of $$each here: its tests will be skipped"; done; }
	@touch $@

$(VENV)/%.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
