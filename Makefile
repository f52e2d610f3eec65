# Two commands matter: `make demo` and `make test`. Each makes .venv from requirements.lock when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= .fleetmark

.PHONY: demo env test test-long services lint lock bench docs clean

demo: env
	$(BIN)/fleetmark demo --store $(STORE)

env: $(VENV)/.made

$(VENV)/.made: requirements.lock pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV) && uv pip install --quiet --python $(BIN)/python -r requirements.lock && uv pip install --quiet --python $(BIN)/python --no-deps -e .; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock && $(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $@

services:
	@bash tests/services/install.sh

test: env services lint
	$(BIN)/python -m pytest -m "not long" -n 2 --dist worksteal

test-long: env services
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[ray]'
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m fleetmark.benchmarks.soak --minutes 30

lint: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: env
	$(BIN)/python -m fleetmark.benchmarks

docs: env
	$(BIN)/fleetmark docs

lock:
	uv pip compile --quiet --universal --python-version 3.11 --group dev --no-header --no-annotate --no-emit-index-url pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) $(STORE)
