# What this needs of a machine: Python 3.11 or later with venv, and make. Everything else lands in .venv.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv verify test test-slow lint types bench docs clean distclean

PYTHON ?= python3
# Test processes: 1 runs the tests in one process, more spreads them (pytest-xdist).
JOBS ?= 1
# More words for pytest: make test PYTEST_ARGS="tests/spec -k publish"
PYTEST_ARGS ?=

BIN := .venv/bin
STAMP := .venv/.stamp
PYTEST := $(BIN)/pytest $(if $(filter-out 1,$(JOBS)),-n $(JOBS))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP) ## Build .venv with the locked versions
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else f"kvspec needs Python 3.11 or later, found {v}: run make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[all,dev]'
	@touch $@

verify: $(STAMP) ## Check the whole specification: the main job
	$(BIN)/kvspec verify

test: $(STAMP) ## Run the tests, without the slow ones
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-slow: $(STAMP) ## Run the slow tests alone
	$(PYTEST) -m slow $(PYTEST_ARGS)

lint: $(STAMP) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

bench: $(STAMP) ## Measure speed
	$(BIN)/python -m kvspec bench

docs: $(STAMP) ## Write the generated parts of the README and the generated pages in docs/ anew
	$(BIN)/kvspec check --markdown docs/codes.md
	$(BIN)/kvspec formulas --markdown docs/formulas.md
	$(BIN)/kvspec projections --markdown docs/projections.md
	$(BIN)/kvspec report --readme README.md

clean: ## Remove build products and caches
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find spec models properties counterexamples tests src -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv as well
	rm -rf .venv
