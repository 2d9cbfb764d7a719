# make demo    set up, tune an emulated Jetson under 7 W, then tune and train on this CPU
# make test    set up, then run the tests
# make arena   every strategy against each other: tables and figures into build/arena (QUICK=1: at most 3 minutes)
# make torture  fake boards that misbehave, agents that are killed: 200 and 100 of them (QUICK=1: at most 3 minutes)
# make taste   throughput against batch size, and accuracy at the tuned one, into build/taste (QUICK=1: at most 3 minutes)
# make setup   the set-up alone; make check: ruff and mypy; make bench: speed

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: setup demo test check bench arena torture taste clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Python 3.11 or newer is needed; name one: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	rm -rf build/demo
	mkdir -p build/demo
	cd build/demo && ../../$(BIN)/tune run --device jetson-orin --cap 7W --fresh --store studies.db
	@echo
	cd build/demo && ../../$(BIN)/tune run --device cpu --workload digits-cnn --bursts 8 --fresh --store studies.db --out digits.json
	@echo
	cd build/demo && ../../$(BIN)/tune train digits.json --out digits

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m experiments.bench

arena: setup
	QUICK=$(QUICK) $(BIN)/python -m experiments.arena $(ARENA)

torture: setup
	QUICK=$(QUICK) $(BIN)/python -m experiments.torture $(TORTURE)

taste: setup
	QUICK=$(QUICK) $(BIN)/python -m experiments.taste $(TASTE)

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache
