# What this needs of a machine: Python 3.11 or later with venv, and make. Everything else lands in .venv.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv verify test test-slow adapters lint types bench docs clean distclean

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

# An environment of a release of Transformers has that release and what only it needs, and sees all else,
# torch above all, in .venv: the same versions, and nothing large is installed twice.
RELEASES := .venv-transformers-4 .venv-transformers-5
ADAPTER_TESTS := tests/models/runtimes tests/test_check_your_own_cache.py::test_the_step_with_transformers_does_what_it_says
.venv-transformers-%/.stamp: constraints-transformers-%.txt $(STAMP)
	rm -rf .venv-transformers-$*
	$(BIN)/python -m venv --without-pip .venv-transformers-$*
	$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' > "$$(.venv-transformers-$*/bin/python -c 'import site; print(site.getsitepackages()[0])')/kvspec-venv.pth"
	.venv-transformers-$*/bin/python -m pip install --quiet --no-deps --requirement $<
	.venv-transformers-$*/bin/python -m pip check
	@touch $@

# The decoder is tiny: a team of threads for each product costs more than it brings.
adapters: export OMP_NUM_THREADS = 1
adapters: $(RELEASES:%=%/.stamp) ## Hold the caches of both releases of Transformers against the specification
	@for release in $(RELEASES); do \
		echo "--- $$release"; $$release/bin/python -c 'import transformers' || exit 1; \
		$$release/bin/python -m pytest $(if $(filter-out 1,$(JOBS)),-n $(JOBS) --dist loadfile) $(ADAPTER_TESTS) $(PYTEST_ARGS) || exit 1; \
	done

lint: $(STAMP) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

bench: $(STAMP) ## Measure speed
	$(BIN)/python -m kvspec bench transactions
	$(BIN)/python -m kvspec bench

docs: $(STAMP) ## Write the generated parts of the README and the generated pages in docs/ anew
	$(BIN)/kvspec check --markdown docs/codes.md
	$(BIN)/kvspec formulas --markdown docs/formulas.md
	$(BIN)/kvspec projections --markdown docs/projections.md
	$(BIN)/kvspec report --rules docs/rules.md
	$(BIN)/kvspec report --readme README.md --readme docs/results.md

clean: ## Remove build products and caches
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find spec models properties counterexamples tests src -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the environments as well
	rm -rf .venv .venv-transformers-4 .venv-transformers-5
