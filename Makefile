# Everything a developer does, by name; `make` alone lists it.

PYTHON ?= python3
DATA_DIR ?= var/dev
PORT ?= 8080
FUZZ_SECONDS ?= 60
WEB_SECONDS ?= 60

BIN := .venv/bin
# Touched when the environment matches the project's files.
ENVIRONMENT := .venv/.installed
# The dashboard's sources: pip builds it with the package.
DASHBOARD := $(shell find dashboard -name node_modules -prune -o -type f ! -name openapi.json ! -name schema.d.ts -print)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup run test test-restore test-compose test-kubernetes check lint types bench bench-web screenshots chaos fuzz clean need-python need-servers need-tests

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: need-servers $(ENVIRONMENT) ## Install what is missing: servers, and .venv with the package and its tools

run: setup ## Run everything on this machine (DATA_DIR=var/dev, PORT=8080)
	$(BIN)/monitor dev --data-dir $(DATA_DIR) --port $(PORT)

# What failed beside other tests has to pass alone; CONTRIBUTING.md says what such a test needs.
test: need-tests check ## Check the code, then run every test against real servers
	$(BIN)/pytest -n 2 --dist loadgroup || { \
		echo "Once more, alone and one after the other: what failed."; \
		$(BIN)/pytest --last-failed --last-failed-no-failures none; \
	}

test-kubernetes: need-tests $(ENVIRONMENT) ## Run the cluster's agent against a real API server (built once, 5 minutes)
	KUBE_APISERVER=$$(scripts/kubernetes.sh) && export KUBE_APISERVER && $(BIN)/pytest -rs tests/kubernetes

test-restore: need-tests $(ENVIRONMENT) ## Back up and restore, as docs/operations.md says
	$(BIN)/pytest tests/operations/test_restore.py

test-compose: need-tests $(ENVIRONMENT) ## Build the image and bring docker-compose.yml up on a real engine (10 minutes at first)
	@PYTHON=$(PYTHON) scripts/setup.sh compose
	COMPOSE_CACHE=$${COMPOSE_CACHE:-$$HOME/.cache/monitor-compose} $(BIN)/pytest tests/compose

check: lint types ## Check the code: lint and types

lint: $(ENVIRONMENT) ## Check style, format and the order of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(ENVIRONMENT) ## Check the types, the dashboard's against the API's description
	$(BIN)/mypy
	$(BIN)/python -m scripts.web_types

bench: setup ## Run every benchmark
	@set -e; for file in benchmarks/*.py; do \
		name=$$(basename $$file .py); \
		if [ $$name != chaos ] && [ $$name != deletion ] && [ $$name != faults ] && [ $$name != bare ] && grep -q __main__ $$file; then \
			echo "== $$name"; $(BIN)/python -m benchmarks.$$name; \
		fi; \
	done

bench-web: need-tests $(ENVIRONMENT) ## Watch the dashboard with 5,000 containers (WEB_SECONDS=60)
	$(BIN)/python -m scripts.bench_web --seconds $(WEB_SECONDS)

screenshots: need-tests $(ENVIRONMENT) ## Draw the pictures of the documentation anew
	$(BIN)/python -m scripts.screenshots

chaos: setup ## Kill and cut off servers under load, and look for what was lost
	$(BIN)/python -m benchmarks.chaos
	$(BIN)/python -m benchmarks.deletion
	$(BIN)/python -m benchmarks.faults

fuzz: setup ## Feed the selector parser with made-up input (FUZZ_SECONDS=60)
	$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install --quiet atheris
	$(BIN)/python fuzz/selector.py -max_total_time=$(FUZZ_SECONDS)

clean: ## Remove the environment and all that was built; the data in var/ stays
	rm -rf .venv build dist monitor/static dashboard/node_modules *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

need-python need-servers need-tests:
	@PYTHON=$(PYTHON) scripts/setup.sh $(@:need-%=%)

# Only the order counts: a bare machine has no venv module before need-python.
$(ENVIRONMENT): setup.cfg pyproject.toml setup.py $(DASHBOARD) | need-python
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
