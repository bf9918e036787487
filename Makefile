# `make demo` and `make test` need python3 (3.11 or newer) and nothing before them; PYTHON=... names another interpreter.
PYTHON ?= python3
BIN = .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
VERSION = import sys; print(sys.version_info[:2])

.NOTPARALLEL:
.PHONY: help setup demo test test-slow fmt bench golden soak build reference docs dist

help:
	@echo "make demo | test | test-slow | fmt | golden | soak HOURS=... | bench NAME=... ARGS=... | reference | docs | build | dist | setup   (ONCE=1 make demo ends by itself)"

setup: .venv/.installed

.venv/.python: build-requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "setup: xscl needs Python 3.11 or newer and '$(PYTHON)' is not that; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setup: making .venv with $$($(PYTHON) --version)"
	@[ "$$($(BIN)/python -c '$(VERSION)' 2>/dev/null)" = "$$($(PYTHON) -c '$(VERSION)')" ] || rm -rf .venv
	@$(PYTHON) -m venv .venv || { echo "setup: '$(PYTHON) -m venv' failed; on Debian and Ubuntu try: apt-get install python3-venv" >&2; exit 1; }
	@echo "setup: installing the build tools"
	@$(PIP) --require-hashes -r build-requirements.lock
	@touch $@

.venv/.locked: requirements.lock .venv/.python
	@echo "setup: installing the locked packages into .venv (1.1 GB; a minute or two the first time)"
	@$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	@touch $@

.venv/.installed: pyproject.toml .venv/.locked
	@echo "setup: installing xscl itself"
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.publishing: publish-requirements.lock .venv/.locked
	@echo "setup: installing what builds the site and checks the distributions"
	@$(PIP) --require-hashes -r publish-requirements.lock
	@touch $@

ifdef CLUSTER
demo: setup
	@echo "demo: orders and invoices on two executors of Spark, of which one is killed"
	@$(BIN)/python -m examples.two_executors
else
demo: setup
	@echo "demo: three sample feeds and five subscriptions; Ctrl-C stops"
	@$(BIN)/xscl demo --master 'local[2]' $(if $(ONCE),--once)
endif

test: setup
	@echo "test: format" && $(BIN)/ruff format --check .
	@echo "test: lint" && $(BIN)/ruff check .
	@echo "test: imports" && $(BIN)/lint-imports
	@echo "test: tests, and types beside them" && { $(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -q -n auto -m "not slow"; tests=$$?; wait $$types && exit $$tests; }

test-slow: setup
	@echo "test-slow: kills, soaks and large inputs" && $(BIN)/python -m pytest -q -m "slow and not hypothesis"
	@echo "test-slow: eight times as many cases of every property" && XSCL_EXAMPLES=8 $(BIN)/python -m pytest -q -n auto -m hypothesis

fmt: setup
	@echo "fmt: formatting and sorting imports" && $(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format .

bench: setup
	@echo "bench: $(or $(NAME),the list; choose with NAME=...)" && $(BIN)/python -m benchmarks $(or $(NAME),--list) $(ARGS)

golden: setup
	@echo "golden: comparing with the golden files" && $(BIN)/python -m pytest -vv tests/golden

soak: setup
	@echo "soak: the service under load for $(or $(HOURS),1) h; the report goes to $(or $(REPORT),build/soak)" && $(BIN)/python -m tests.soak --hours $(or $(HOURS),1) --report $(or $(REPORT),build/soak) $(ARGS)

build: setup
	@echo "build: a wheel in dist/" && rm -rf build && $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

reference: setup
	@echo "reference: the parts of docs/ that are made from the program" && $(BIN)/python -m tools.site.generated

docs: setup .venv/.publishing
	@echo "docs: the site in build/site" && NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

dist: build .venv/.publishing
	@echo "dist: a source distribution beside it, both checked" && $(BIN)/python -c "import setuptools.build_meta as b; print(b.build_sdist('dist'))" >/dev/null && $(BIN)/python -m twine check --strict dist/*
