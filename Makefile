.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all test-engines check lock clean

TASK ?= image
ARGS ?=
# Tests wait for processes, disks and locks about a third of their time.
WORKERS ?= 3
ENGINE_TESTS ?= tests/engine
BIN := .venv/bin
# A file of tests runs in one worker, so that its fixtures are built once.
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## create .venv from requirements.lock (once; demo, test and check call it); GPU=1 adds CUDA
	@scripts/setup.sh

demo: setup  ## generate sample data and run TASK (default: image) from raw data to a pushed model
	@$(BIN)/python -m data $(TASK)
	@$(BIN)/penstock run $(TASK) $(ARGS)

test: setup  ## run the tests that every change must pass, in WORKERS (default: 3) processes; ARGS goes to pytest
	@$(PYTEST) -m "not all and not engine" $(ARGS)

test-fast: setup  ## run the quick tests: no pipeline, no training, no long fuzzing
	@$(PYTEST) -m "not slow and not e2e and not all and not engine" $(ARGS)

test-all: setup  ## run all tests but those of engines, with further data and tasks, worker processes and long fuzzing
	@$(PYTEST) -m "not engine" $(ARGS)

test-engines: setup  ## run the tests on a real Flink cluster (Java, Maven; object stores: Go)
	@$(BIN)/pytest -m engine $(ENGINE_TESTS) $(ARGS)

check: setup  ## check lint rules, formatting, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

COMPILE = "$$(scripts/setup.sh --uv)" pip compile --python 3.10 \
	--generate-hashes --no-annotate --no-header --no-emit-index-url --quiet
ALL = pyproject.toml --extra dev --extra hub
WORKER = pipelines/package/requirements-worker.lock

lock:  ## resolve all three locks again after a change of pyproject.toml
	@$(COMPILE) $(ALL) -o requirements.lock
	@$(COMPILE) $(ALL) --extra gpu --constraints requirements.lock -o requirements-gpu.lock
	@$(COMPILE) --group worker --constraints requirements.lock -o $(WORKER)

clean:  ## remove everything that is generated: environment, tools, runs, sample data, caches
	@rm -rf .venv .tools runs data/samples build dist *.egg-info \
		.mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find components pipelines schemas data tests -type d -name __pycache__ -prune -exec rm -rf {} +
