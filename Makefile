# One question: how does a fresh checkout become a running server, a green test run, a clean lint?
#
#   make serve     environment (first time only), then the bundled pair on 127.0.0.1:8000
#   make install   environment only; afterwards .venv/bin/paceline is the command
#   make test      environment with the test tools, lint, unit tests, sessions of real
#                  clients, tests on the real engine
#   make chaos     replicas that are killed, hang or lie, clients that leave or never read; minutes
#   make soak      the same for long, with raw results in benchmarks/results; an hour or more
#   make check     the quick loop: lint, types, import direction, unit tests; a minute, once installed
#
# Variables: PYTHON (3.11 by default), ARGS (passed to `paceline serve`), TORCH_INDEX (where the
# CPU build of torch is looked for when pip's configured indexes do not have it).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=

# Stamps carry a digest of what they stand for, so a second `make` installs nothing and a changed
# lock is noticed whatever the time stamps say (a fresh clone has none worth trusting).
digest = $(shell cat $(1) | sha256sum | cut -c1-16)
RUNTIME := $(VENV)/.installed-$(call digest,requirements.lock pyproject.toml)
DEV := $(VENV)/.installed-dev-$(call digest,requirements.lock requirements-dev.lock \
    requirements-suffix.lock pyproject.toml)

CLIENTS := .clients
CLIENTS_IN := $(CLIENTS)/.installed-$(call digest,requirements-clients.lock \
    tests/clients/node/package-lock.json)

.PHONY: help install install-dev serve test test-unit test-engine test-clients chaos soak fuzz lint check \
    clean

help:
	@sed -n '3,7s/^#   //p' Makefile

install: $(RUNTIME)

install-dev: $(DEV)

$(RUNTIME):
	@PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH_INDEX="$(TORCH_INDEX)" \
	    bash scripts/install.sh requirements.lock
	@rm -f $(VENV)/.installed-[0-9a-f]*
	@touch $@

$(DEV): $(RUNTIME)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH_INDEX="$(TORCH_INDEX)" \
	    bash scripts/install.sh requirements-dev.lock requirements-suffix.lock
	@rm -f $(VENV)/.installed-dev-*
	@touch $@

$(CLIENTS_IN): $(DEV)
	@VENV="$(VENV)" CLIENTS="$(CLIENTS)" bash scripts/install-clients.sh
	@rm -f $(CLIENTS)/.installed-*
	@touch $@

serve: $(RUNTIME)
	@exec $(BIN)/paceline serve $(ARGS)

lint: $(DEV)
	@$(BIN)/ruff check src tests tools benchmarks
	@$(BIN)/ruff format --check src tests tools benchmarks
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/typos
	@PYTHONPATH=tools $(BIN)/python -m plain_words

# Most of these tests wait for processes and time limits, so more of them run than there are cores.
test-unit: $(DEV)
	@$(BIN)/python -m pytest -q --numprocesses 4 tests/unit

# An engine's start keeps one core busy: two at a time take two thirds of the time. Whole files, for
# the tests of a file share an engine.
test-engine: $(DEV) $(CLIENTS_IN)
	@$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder \
	    --durations 10 tests/engine

# The clients are processes that wait for each other's starts and for Retry-After.
test-clients: $(DEV) $(CLIENTS_IN)
	@$(BIN)/python -m pytest -q --numprocesses 4 tests/clients

# Not part of `make test`: minutes. CASES=1000000 takes 11 to 28 of them on two cores.
CASES ?= 100000
fuzz: $(DEV)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(CLIENTS)/fuzz \
	    -r requirements-fuzz.lock
	@$(BIN)/python benchmarks/fuzz_gateway.py --cases $(CASES) --schemathesis $(CLIENTS)/fuzz

check: lint test-unit

# Processes that are killed, and clients that wait for what follows. Whole files, for the tests of a
# file share a gateway and its replicas.
chaos: $(DEV)
	@$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile tests/chaos

# On an idle machine: what is measured is time and memory.
soak: $(DEV)
	@$(BIN)/python benchmarks/soak_kills.py
	@$(BIN)/python benchmarks/soak_disconnects.py
	@$(BIN)/python benchmarks/soak_memory.py
	@$(BIN)/python benchmarks/chaos_real.py

# The unit tests leave room for lint beside them.
test: $(DEV) $(CLIENTS_IN)
	@$(MAKE) --no-print-directory -j2 lint test-unit
	@$(MAKE) --no-print-directory test-clients
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory test-engine

clean:
	rm -rf $(VENV) $(CLIENTS) tests/clients/node/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
