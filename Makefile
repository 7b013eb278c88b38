.DEFAULT_GOAL := help
.PHONY: help setup demo test check lock clean

TASK ?= image
ARGS ?=
BIN := .venv/bin

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv from requirements.lock (done once; demo, test and check call it)
	@scripts/setup.sh

demo: setup  ## generate the sample data and run TASK (default: image) end to end
	@$(BIN)/python -m data $(TASK)
	@$(BIN)/penstock run $(TASK) $(ARGS)

test: setup  ## pass all tests; ARGS goes to pytest
	@$(BIN)/pytest $(ARGS)

check: setup  ## lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lock:  ## resolve requirements.lock anew after a change of pyproject.toml
	@"$$(scripts/setup.sh --uv)" pip compile pyproject.toml --extra dev --extra hub --python 3.10 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --quiet -o requirements.lock

clean:  ## remove all that was made: environment, tools, runs, sample data, caches
	@rm -rf .venv .tools runs data/samples build dist *.egg-info \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find components pipelines schemas data tests -type d -name __pycache__ -prune -exec rm -rf {} +
