# Every target sets up .venv by itself; nothing written here shows up in `git status`.
# A fresh machine needs python3 >= 3.11 with venv, and make.

PYTHON ?= python3
BIN := .venv/bin
# `make run` and `make serve` need a fifth of what tests, checks and docs need; each set has its stamp.
TO_RUN := .venv/.to-run
TO_WORK := .venv/.to-work

# Two test workers share the machine, and the matrices are small: more BLAS threads only make it slower.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: run serve test lint format bench reproduce docs axe clean help

run: $(TO_RUN)  ## Run Lazy Track-and-Stop on the many-arms problem: live, a table, a plot in out/ (ARGS="--help")
	$(BIN)/surepick run $(ARGS)

serve: $(TO_RUN)  ## Serve a demonstration: a study of real data and a simulated bench, at localhost:8080 (ARGS="9000" for another port)
	$(BIN)/python -m examples.live_bench $(ARGS)

test: $(TO_WORK)  ## Run every test, the code of README and docs included (ARGS="-k design" selects)
	$(BIN)/python -m pytest $(ARGS)

lint: $(TO_WORK)  ## Check style, formatting, types, layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

format: $(TO_WORK)  ## Rewrite the code in the agreed format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(TO_WORK)  ## Run the benchmarks (ARGS="design" runs one)
	$(BIN)/python -m benchmarks $(ARGS)

reproduce: $(TO_WORK)  ## Every table of the paper and more, with a report in out/; a kill loses nothing (ARGS="--full")
	$(BIN)/surepick reproduce $(ARGS)

docs: $(TO_WORK)  ## Build the documentation into docs/_build, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

axe: docs  ## Check every page in a browser, on both screens and in both colours (half an hour)
	$(BIN)/python -m tests.docs.test_site docs/_build/html

clean:  ## Remove everything the other targets created, .venv included
	rm -rf .venv build dist out docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Reinstalled whenever the declared or the pinned dependencies change. What runs is compiled on its first use.
install = $(PYTHON) -m venv .venv && $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

$(TO_RUN): pyproject.toml constraints.txt
	$(install) --no-compile -e '.[app,figures,server]' joblib
	@touch $@

$(TO_WORK): pyproject.toml constraints.txt
	$(install) -e '.[all,test,lint,docs]'
	@touch $(TO_RUN) $@
