# Two commands for a newcomer: `make demo` and `make test`. Everything happens in ./.venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
LINT_STAMP := $(VENV)/.installed-lint
EXTRAS_STAMP := $(VENV)/.installed-extras
EVAL_STAMP := $(VENV)/.installed-eval
SCRATCH ?= build/bench-model
# most tests wait for a process, a lock or a disk: two workers a core
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')

.PHONY: install demo test test-crash check test-extras bench bench-store bench-trees bench-memory bench-scale bench-model bench-clients eval clean

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	touch $@

$(STAMP): $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(TEST_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --group test
	touch $@

$(LINT_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --group lint
	touch $@

# a machine without a GPU wants torch's CPU build: TORCH names what is installed before everything that needs it
TORCH ?= torch==2.13.0

$(EXTRAS_STAMP): $(TEST_STAMP)
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet --editable '.[rabin,bge-m3,eval,qdrant]'
	touch $@

$(EVAL_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[eval]'
	touch $@

install: $(STAMP)  ## memoryd and memproxy in .venv/bin

demo: $(STAMP)  ## the whole thing from nothing, checked; DOCS=folder indexes that folder
	$(BIN)/python -m tests.journeys.demo $(if $(DOCS),--docs "$(DOCS)")

test: $(TEST_STAMP)  ## the tests that need no torch and no compiler
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not extras' tests

test-crash: $(TEST_STAMP)  ## the crash tests to their end: every step, every state, every nth error; prints counts
	CRASH_TESTS=long CRASH_STEP=1 MODEL_EXAMPLES=60 $(BIN)/python -m pytest -n $(WORKERS) tests/crash \
		tests/operations/test_collect.py tests/operations/test_collect_model.py tests/operations/test_forget.py tests/operations/test_optimize.py tests/journeys/test_storm.py $(ARGS)

test-extras: $(EXTRAS_STAMP)  ## the tests of optional parts; they need a C compiler and OpenSSL's headers
	$(BIN)/python -m pytest -n $(WORKERS) -m extras tests

bench-scale: $(TEST_STAMP)  ## build, rebuild, memory and search at 1,000 to 100,000 passages; ARGS="--only million" for the engine alone
	$(BIN)/python -m tests.benchmarks.bench_scale $(ARGS)

bench-memory: $(TEST_STAMP)  ## what an add costs beside bare git; with ARGS="--rules FOLDER" rules that change
	$(BIN)/python -m tests.benchmarks.bench_memory $(ARGS)

bench-model: $(EXTRAS_STAMP)  ## load, memory and speed of both models, BGE-M3 of the real size with random numbers; SCRATCH=folder keeps it
	$(BIN)/python -m tests.benchmarks.bench_model --scratch "$(SCRATCH)" $(ARGS)

bench-store: $(TEST_STAMP)  ## ingest, restore and size beside restic, borg, casync and git, those that are installed
	$(BIN)/python -m tests.benchmarks.bench_store $(ARGS)

bench-trees: $(TEST_STAMP)  ## differences of large trees, and snapshots of an unchanged one beside a directory walk
	$(BIN)/python -m tests.benchmarks.bench_trees $(ARGS)

bench-clients: $(STAMP)  ## many clients at once beside a lone one, open and closed loop
	$(BIN)/python -m tests.benchmarks.bench_clients $(ARGS)

eval: $(EVAL_STAMP)  ## DATA=folder of sets against the committed report; REPORT=folder writes a new one
	$(BIN)/memoryd eval "$(DATA)" --compare docs/eval/report.json $(if $(REPORT),--ablations --report "$(REPORT)")
	$(BIN)/memoryd eval docs --ab tests/benchmarks/tasks.jsonl

bench: $(STAMP)  ## ratios and figures of process, wire, memory and search, measured side by side
	$(BIN)/python -m tests.benchmarks.bench $(ARGS)

check: $(LINT_STAMP)  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist
