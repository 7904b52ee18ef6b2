# Two commands matter: `make demo` audits the bundled example, `make test` sets up and passes the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: bench bench-full demo test test-slow lint lock example clean

demo: $(VENV)/.installed
	$(BIN)/auditor demo --output auditor-report

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/sqlfluff lint rules

bench: $(VENV)/.installed-dev
	$(BIN)/python tools/bench/bills.py build/bench

bench-full: $(VENV)/.installed-dev
	$(BIN)/python tools/bench/bills.py build/bench --full
	$(BIN)/python tools/bench/telemetry.py build/bench/telemetry

example: $(VENV)/.installed
	$(BIN)/python tools/make_example.py

# Needs uv (https://docs.astral.sh/uv/); writes the lock files that everything else installs from.
COMPILE = uv pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 --no-emit-index-url --custom-compile-command "make lock" --quiet
lock:
	$(COMPILE) --group build -o requirements.lock
	$(COMPILE) --group dev --all-extras -o requirements-dev.lock

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("auditor needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created requirements.lock pyproject.toml
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	touch $@

clean:
	rm -rf $(VENV) auditor-report dist
