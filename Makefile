# Two commands for a newcomer: `make demo` and `make test`. Everything happens in ./.venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
LINT_STAMP := $(VENV)/.installed-lint
WORKERS ?= auto

.PHONY: install demo test check bench clean

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

install: $(STAMP)  ## memoryd and memproxy in .venv/bin

demo: $(STAMP)  ## the whole thing from nothing, checked; DOCS=folder indexes that folder
	$(BIN)/python -m tests.journeys.demo $(if $(DOCS),--docs "$(DOCS)")

test: $(TEST_STAMP)  ## the tests that need no torch and no compiler
	$(BIN)/python -m pytest -n $(WORKERS) tests

bench: $(STAMP)  ## ratios and figures of process, wire, memory and search, measured side by side
	$(BIN)/python -m tests.benchmarks.bench $(ARGS)

check: $(LINT_STAMP)  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist
