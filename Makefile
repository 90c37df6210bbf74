# `make demo` shows the main job, `make test` is the quick suite, `make test-all` adds the slow tests.
# Each sets up .venv by itself and reuses what is there.
PYTHON ?= python3
BIN := .venv/bin
# Modules are compiled when they are first imported, and kept, whatever the environment says: most of what is
# installed never is imported.
export PYTHONDONTWRITEBYTECODE =
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# One BLAS thread per test process: several processes share the cores.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest
PARALLEL := -n auto --dist loadgroup

# Run a command as a stage of that name and say how long it took.
stage = @start=$$(date +%s); $(2); code=$$?; echo "== $(1): $$(($$(date +%s) - start)) s"; exit $$code

.PHONY: demo test test-slow test-all check lint browser format clean

demo: .venv/.core
	$(BIN)/gmmatch demo

test: .venv/.dev
	$(call stage,lint,$(MAKE) --no-print-directory lint)
	$(call stage,quick tests,$(PYTEST) $(PARALLEL))

test-slow: .venv/.dev
	$(call stage,browser,$(MAKE) --no-print-directory browser)
	$(call stage,slow tests,$(PYTEST) $(PARALLEL) -m slow)

test-all: test test-slow

check: .venv/.dev
	@test -n "$(FILES)" || { echo "Say what to check, for example: make check FILES=tests/unit/trust"; exit 2; }
	$(call stage,check,$(PYTEST) -x $(FILES))

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_shape.py

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
	$(call stage,install,$(PIP) -e '.[report,figures]')
	@touch $@

# The test tools bring the core along: nothing is resolved twice, and what `make demo` installed stays.
.venv/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the project with its test tools (once; some hundred megabytes)"
	$(call stage,install,$(PIP) -e '.[dev]')
	@touch .venv/.core $@
