# Everything here works on a fresh clone that has only make and Python 3.11+ with pip.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo serve test check bench peers profile bench-start bench-oracles bench-scheduler bench-switches docs-scheduling bench-batch chaos-batch parts clients lock clean
PYTHON ?= python3
BIN := .venv/bin
TESTS ?= tests
PIP := $(BIN)/python -m pip --quiet --no-input --disable-pip-version-check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.dev ## install everything for development into .venv
	@echo "ready: source $(BIN)/activate, then tidegate --help"

demo: .venv/.run ## serve one model, score a million rows with it, compare both paths
	@$(BIN)/python examples/risk/demo.py

serve: .venv/.run ## publish the example model into ./tidegate-store and serve it on port 8000
	@$(BIN)/tidegate model show risk >/dev/null 2>&1 || $(BIN)/tidegate model publish risk \
		examples/risk/model.onnx --transform examples/risk/transform.toml --alias stable
	@$(BIN)/tidegate serve --model risk@stable

test: .venv/.dev ## run the tests; says what it skipped and how to get it (TESTS=tests/unit for some)
	@$(BIN)/pytest -rs $(TESTS)

check: .venv/.dev ## all that must hold before a merge: format, lint, types, contracts, tests, wheel
	@tools/check

bench: .venv/.dev peers ## compare with other servers on the same models (40 min on an idle machine; needs wrk, h2load)
	@$(BIN)/python tools/bench-peers

profile: .venv/.dev .parts/profiler/bin/py-spy ## draw where the gateway spends its time under load, as profile.svg (20 s; needs wrk)
	@$(BIN)/python tools/profile

bench-start: .venv/.run ## measure how fast the command and the gateway start
	@$(BIN)/python tools/bench-start

bench-oracles: .venv/.dev ## hold the simulator to theory and published systems in the long form (30 s)
	@$(BIN)/pytest -m long tests/simulation

bench-switches: .venv/.dev ## switch versions fifty times under load, and say what it cost callers (1 min)
	@$(BIN)/pytest -q -s -m long tests/integration/test_model_lifecycle_long.py

bench-scheduler: .venv/.dev ## hold the scheduler to its targets, simulated and live (7 min on an idle machine)
	@$(BIN)/python tools/bench-scheduler

docs-scheduling: .venv/.dev ## simulate every policy on every curve and profile, for docs/scheduling.md (5 min)
	@$(BIN)/python tools/bench-scheduler --table docs/scheduling.md

bench-batch: .venv/.dev ## compare offline jobs with bare onnxruntime and Ray Data (90 min on an idle machine)
	@$(BIN)/python tools/bench-batch

chaos-batch: .venv/.dev ## kill workers and drivers of offline jobs on a disk and on S3, faults on (6 min on an idle machine)
	@$(BIN)/python tools/chaos-batch

parts: ## fetch the real servers that some tests use into .parts
	@$(PYTHON) tools/parts fetch

peers: ## install the servers that bench compares with, each in its own environment
	@$(PYTHON) tools/parts peers

clients: .venv/.dev ## run unmodified client libraries of others against a gateway, each in its own environment
	@$(PYTHON) tools/parts clients
	@TIDEGATE_REQUIRE_PARTS=1 $(BIN)/pytest -rs tests/clients

lock: .venv/.dev ## compile requirements/*.txt anew from pyproject.toml
	@tools/lock

clean: ## remove what was built and installed here, but no store and no parts
	@rm -rf .venv dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find shared services loadtests tests examples tools -name __pycache__ -prune -exec rm -rf {} +

# A lock that changed installs again; an unchanged one costs nothing.
.venv/.run: requirements/run.txt pyproject.toml | .venv/bin/python
	@echo "installing the locked packages of requirements/run.txt into .venv …"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: requirements/dev.txt pyproject.toml | .venv/bin/python
	@echo "installing the locked packages of requirements/dev.txt into .venv …"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ .venv/.run

# A sampling profiler of its own environment: nothing of ours imports it.
.parts/profiler/bin/py-spy:
	@$(PYTHON) -m venv .parts/profiler
	@.parts/profiler/bin/python -m pip --quiet --no-input --disable-pip-version-check install py-spy==0.4.1

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tidegate needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "$(PYTHON) -m venv failed; on Debian: apt install python3-venv"; exit 1; }
