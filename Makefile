# Everything a fresh machine with Python 3.11+ and make needs. `make help` lists the goals.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format vectors chaos bench clean

help:
	@echo "make demo    set up and run the main job on an embedded log"
	@echo "make test    set up and pass every test (starts a local Kafka; needs Java 17 and Maven)"
	@echo "make check   format, lint, types, import contracts, golden vectors"
	@echo "make bench   measure the bare kernel; tests/benchmarks/README.md has the others"
	@echo "make chaos   the long chaos runs on a three-node Kafka"

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $(STAMP)

$(VENV)/installed-dev: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(VENV)/installed-dev

setup: $(VENV)/installed-dev

demo: $(STAMP)
	$(BIN)/pool demo

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.schemas.make_vectors --check

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

vectors: setup
	$(BIN)/python -m tests.schemas.make_vectors

chaos: setup
	$(BIN)/python -m tests.kafka.chaos

bench: setup
	$(BIN)/python -m tests.benchmarks.kernel

clean:
	rm -rf $(VENV) .venv-cwt .venv-go build *.egg-info .pytest_cache .mypy_cache .ruff_cache
