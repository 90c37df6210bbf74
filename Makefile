# `make demo` shows the main job, `make test` is the quick suite, `make test-all` adds the slow tests.
# Each sets up .venv by itself and reuses what is there.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
# Modules are compiled when they are first imported, and kept, whatever the environment says: most of what is
# installed never is imported.
export PYTHONDONTWRITEBYTECODE =
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS)
# One BLAS thread per test process: several processes share the cores.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest
PARALLEL := -n auto --dist loadgroup

# The compiled loops; the editable install builds them as well, and brings zig along where there is no compiler.
LOOPS := src/gmmatch/compute/loops
BUILT := $(LOOPS)/base.so

# Run a command as a stage of that name and say how long it took.
stage = @start=$$(date +%s); $(2); code=$$?; echo "== $(1): $$(($$(date +%s) - start)) s"; exit $$code

.PHONY: demo test test-slow test-all drill test-versions test-lowest test-newest check lint docs bench results browser wheel wheels mutants format clean

demo: .venv/.core
	$(BIN)/gmmatch demo

test: .venv/.dev
	$(call stage,lint,$(MAKE) --no-print-directory lint)
	$(call stage,quick tests,$(PYTEST) $(PARALLEL))

test-slow: .venv/.dev
	$(call stage,browser,$(MAKE) --no-print-directory browser)
	$(call stage,slow tests,$(PYTEST) $(PARALLEL) -m slow)

test-all: test test-slow

# The quick tests that need neither torch nor Ray, with other versions: of Python as well, for example
# `make test-versions PYTHON=python3.13 VENV=.venv-3.13`.
WITHOUT_TORCH := tests/contract $(addprefix tests/unit/,cli compute data location matching report selectors trust)
NO_TRAINING := not (forgetting or el2n or grand or optimization or torch or train or bfloat16)
test-versions: $(VENV)/.test
	$(call stage,tests with $(CONSTRAINTS),$(PYTEST) $(PARALLEL) -p no:cacheprovider -W default::DeprecationWarning -W default::FutureWarning -k '$(NO_TRAINING)' $(WITHOUT_TORCH) $(wildcard tests/unit/*.py))

test-lowest:
	@$(MAKE) --no-print-directory test-versions VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

test-newest:
	@$(MAKE) --no-print-directory test-versions VENV=.venv-newest CONSTRAINTS=/dev/null

# Faults of every kind, and the table of them in docs/drill.md; some twenty minutes.
drill: .venv/.dev
	@test -n "$(RESUME)" || rm -rf out/drill
	$(call stage,drill,$(PYTEST) $(PARALLEL) tests/drill -m drill)

check: .venv/.dev
	@test -n "$(FILES)" || { echo "Say what to check, for example: make check FILES=tests/unit/trust"; exit 2; }
	$(call stage,check,$(PYTEST) -x $(FILES))

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_shape.py
	$(BIN)/python tools/check_figures.py

# The site of the documentation, in out/site; a warning is an error.
docs: .venv/.docs
	$(call stage,docs,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "Open out/site/index.html; with search: python3 -m http.server -d out/site")

# How fast it is beside peers, version 0.2.0 and the machine, into docs/results/performance.*: some forty minutes, on
# an idle machine. `make bench SCALE=small` takes minutes; BEFORE=FOLDER, a checkout of version 0.2.0, adds it.
SCALE ?= full
bench:
	@$(MAKE) --no-print-directory .venv-bench/.bench VENV=.venv-bench
	$(call stage,bench,.venv-bench/bin/python -m benchmarks.performance --scale $(SCALE) $(if $(BEFORE),--before $(BEFORE)))

# The pages of docs/results, the cheapest first; it goes on where it was stopped. `make results ONLY="believe teach"` makes some,
# QUICK=1 with fewer draws. GMMATCH_DATA names the data, GMMATCH_OLD the sources of version 0.2.0 (`benchmarks/results.py`).
results: .venv/.dev
	$(BIN)/python -m benchmarks.results $(ONLY) $(if $(QUICK),--quick)

# The tests of the report's page drive the system's Chromium, and axe-core checks it and the site; both are skipped where
# they cannot be installed.
browser:
	@sh tests/browser/install-chromium.sh
	@sh tests/browser/install-axe.sh

# A source archive and, made from it, a wheel.
wheel: .venv/.dev
	$(BIN)/python -m build --outdir dist .

# Wheels for Linux, macOS and Windows, built here by zig. Only that of this system is run by any test.
TARGETS := x86_64-linux-gnu.2.17 aarch64-linux-gnu.2.17 x86_64-macos.11.0 aarch64-macos.11.0 x86_64-windows-gnu
wheels: .venv/.dev
	$(PIP) hatchling ziglang
	@for target in $(TARGETS); do GMMATCH_TARGET=$$target $(BIN)/python -m hatchling build -t wheel -d dist || exit 1; done

# Small changes of the code that no test notices: `make mutants PACKAGE=trust.gate SAMPLE=100`.
PACKAGE ?= location
SAMPLE ?= 150
SEED ?= 2
mutants: .venv/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py --sample $(SAMPLE) --seed $(SEED) $(PACKAGE)

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* dist out $(LOOPS)/*.so

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gmmatch needs Python 3.11 or newer; found $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (once)"
	$(PYTHON) -m venv $(VENV)

$(BUILT): $(LOOPS)/loops.c $(LOOPS)/rows.h hatch_build.py | $(BIN)/python
	$(call stage,loops,$(BIN)/python hatch_build.py || $(PIP) --no-deps -e .)
	@test ! -e $@ || touch $@

# Named here: a comma inside a call would end its argument.
SHOWN := .[report,figures]
SITE := .[report,figures,docs]
.venv/.core: pyproject.toml src/gmmatch/version.py constraints.txt | $(BIN)/python $(BUILT)
	$(call stage,install,$(PIP) -e '$(SHOWN)')
	@touch $@

# The test tools bring the core along: nothing is resolved twice, and what `make demo` installed stays.
.venv/.dev: pyproject.toml src/gmmatch/version.py constraints.txt | $(BIN)/python $(BUILT)
	@echo "Installing the project with its test tools (once; some hundred megabytes)"
	$(call stage,install,$(PIP) -e '.[dev]')
	@touch .venv/.core $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) | $(BIN)/python $(BUILT)
	$(call stage,install,$(PIP) -e '.[test]')
	@touch $@

# A peer that does not install is named by the page.
PEERS := cleanlab apricot-select submodlib-py coreax geom_median numba
$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python $(BUILT)
	$(call stage,install,$(PIP) -e '$(SHOWN)')
	@for peer in $(PEERS); do $(PIP) $$peer || echo "$$peer does not install here"; done
	@touch $@

.venv/.docs: .venv/.core
	$(call stage,install,$(PIP) -e '$(SITE)')
	@touch $@
