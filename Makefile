# Two commands: `make demo` and `make test`. Each sets up .venv by itself and reuses what is there.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One BLAS thread per test process: several processes share the cores.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint browser format clean

demo: .venv/.core
	$(BIN)/gmmatch demo

test: lint browser
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist loadgroup

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests of the report's page drive the system's Chromium, and are skipped where there is none.
browser:
	@sh tests/browser/install-chromium.sh

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gmmatch needs Python 3.11 or newer; found $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up .venv (once)"
	$(PYTHON) -m venv .venv

.venv/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[report]'
	touch $@

.venv/.dev: .venv/.core
	@echo "Installing the test tools (once; some hundred megabytes)"
	$(PIP) -e '.[dev]'
	touch $@
