# Fenceline. `make help` lists everything; `make demo` and `make test` are the two commands of the README.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ZIG := 0.17.1
PIP := 26.3
# uv is used where it is; else a private copy is installed beside the environment, once.
UV := $(or $(shell command -v uv 2>/dev/null),build/uv/bin/uv)
export UV_PROJECT_ENVIRONMENT := $(VENV)
# As pip does: behind a company's certificate authority the system's certificates are the right ones.
export UV_SYSTEM_CERTS ?= 1

.PHONY: help setup demo serve test test-more test-all faults migration standstill mutations zombies numbers jobs lint format pictures lock spark-wheel native sanitized bench bench-audit doctor clean

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'

$(STAMP): requirements/dev.lock pyproject.toml | $(UV)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fenceline needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 …")'
	@echo "installing the Python packages of requirements/dev.lock into $(VENV)" >&2
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@$(UV) pip sync --python $(BIN)/python --require-hashes requirements/dev.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

setup: $(STAMP) ## Install everything: Python packages, and as root on Debian also Java, Chromium and bubblewrap
	@# What cannot be installed here may still be fetched; the doctor decides how this ends.
	@.ci/system-packages || echo "continuing without them; the end of the output lists missing requirements" >&2
	$(BIN)/fenceline doctor --fetch

demo: $(STAMP) ## A pipeline on embedded Kafka, Postgres and Spark (ONCE=1: to the end, without a browser)
	@$(BIN)/fenceline demo $(if $(ONCE),--once)

serve: $(STAMP) ## The server, with embedded Postgres unless FENCELINE_DATABASE_URL is set
	$(BIN)/fenceline serve

doctor: $(STAMP) ## Check the requirements, with commands to install missing ones
	$(BIN)/fenceline doctor

# One seed for all suites of a run. They start hundreds of Python processes, each of which would compile every file again.
test test-more test-all: SEED := $(or $(SEED),$(shell $(PYTHON) -c 'import secrets; print(secrets.randbelow(2**32))'))
test test-more test-all: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP) ## All tests without a broker, and the features of the README on real parts: a quarter of an hour (SEED=…, ARGS=…: some tests)
	$(BIN)/fenceline doctor --for tests
ifdef ARGS
	$(BIN)/pytest --seed $(SEED) --hypothesis-seed $(SEED) $(ARGS)
else
	$(BIN)/pytest --seed $(SEED) --hypothesis-seed $(SEED) --suite quick --numprocesses 2 --dist loadfile
	$(BIN)/pytest --seed $(SEED) --hypothesis-seed $(SEED) --suite core --numprocesses 2 --dist load --durations 10
endif

test-more: $(STAMP) ## The tests that `make test` omits, sampled by a printed seed: at most 15 minutes (SEED=…)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/pytest --seed $(SEED) --hypothesis-seed $(SEED) --suite more --minutes 15 -rs --durations 40

# The tests of one file stay together, in the order of their cost. Most wait for brokers, so two processes halve the time.
test-all: $(STAMP) ## Every test, nothing sampled: three hours; results in tests/results/all.json (SEED=…, CONTINUE=1: the rest of an interrupted run)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/pytest --seed $(SEED) --hypothesis-seed $(SEED) --all --numprocesses 2 --dist loadfile --no-loadscope-reorder --results=tests/results/all.json $(if $(CONTINUE),--continue) $(ARGS)

faults: $(STAMP) ## A fault run with its verdict, added to tests/results (SEED=…, MINUTES=…, STAGE=spark, files or dataframes, GUARANTEE=exactly_once)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m tests.fault_suite $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(STAGE),--stage $(STAGE)) $(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(ARGS)

migration: $(STAMP) ## A migration of the whole product under load and faults: docs/measured/migration-run.md (SEED=…)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m tests.fault_suite.migration $(if $(SEED),--seed $(SEED)) $(ARGS)

mutations: $(STAMP) ## Mutations: damage without each protection of the loop: docs/measured/mutations.md
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m tests.mutations $(ARGS)

zombies: $(STAMP) ## Zombies in each stage of a migration, and after the switch in one step: docs/measured/zombies.md
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m tests.zombies $(ARGS)

numbers: $(STAMP) ## Generate docs/measured/faults.md and file-faults.md from the results of `make faults`
	$(BIN)/python -m tests.fault_suite.page
	$(BIN)/python -m tests.fault_suite.file_page
	$(BIN)/python -m tests.fault_suite.dataframes.page

jobs: $(STAMP) ## Clicks and seconds of ten jobs in the browser: docs/measured/jobs.md
	$(BIN)/fenceline doctor --for tests
	FENCELINE_TEST_JOBS=tests/results/jobs.json $(BIN)/pytest --all tests/browser/jobs
	$(BIN)/python -m tests.browser.jobs.results

standstill: $(STAMP) ## Recovery times after the loss of an instance, against their bounds (ARGS=…)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m tests.fault_suite.recovery $(ARGS)

spark-wheel: $(STAMP) | $(UV) ## The package fenceline-spark with its jar, into dist/
	$(BIN)/python -m app.edges.embedded.spark_sink workers/dataframes/fenceline_spark/jars
	$(UV) build --quiet --wheel --out-dir dist workers/dataframes

# The wheel of Zig is 100 MB, so that nobody else needs it.
native: | $(UV) ## Build the native records for all platforms, by Zig's C compiler (ARGS=--check: compare it with what is there)
	$(UV) run --no-project --quiet --with ziglang==$(ZIG) --with pip==$(PIP) python workers/native/build.py $(ARGS)

# gcc, since Zig has no runtime of the address sanitizer. It must be the first library of the process, and sees memory of
# Python's objects only if each has its own.
sanitized: $(STAMP) ## The tests of the C part with the address sanitizer and the one for undefined behaviour (ARGS=…)
	$(MAKE) native ARGS="--sanitized $(CURDIR)/build/sanitized.so"
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc FENCELINE_TEST_SANITIZED=build/sanitized.so \
	  $(BIN)/pytest -p tests.workers.native.sanitized --ignore tests/workers/native/test_library.py tests/workers/native $(ARGS)

lint: $(STAMP) ## ruff, pyright, import-linter, and the texts (docs/glossary.md)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	$(BIN)/python -m tests.texts

format: $(STAMP) ## Format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-audit: $(STAMP) ## An audit of ten million ids: time and memory
	$(BIN)/python -m bench.audit

build/quix/.installed: requirements/quix.lock | $(STAMP)
	@echo "installing Quix Streams into an environment of its own" >&2
	@test -x build/quix/bin/python || $(UV) venv --quiet --python $(BIN)/python build/quix
	@$(UV) pip sync --quiet --python build/quix/bin/python --require-hashes requirements/quix.lock
	@touch $@

bench: $(STAMP) build/quix/.installed ## The benchmark of the loop and its peers, and its report (QUICK=1: the first three rows and JSON; ARGS=…)
	$(BIN)/fenceline doctor --for tests
	$(BIN)/python -m bench.peers $(if $(QUICK),--quick) $(ARGS)
	$(if $(QUICK),,$(BIN)/python -m bench.dataframes)
	$(BIN)/python -m bench.peers.page

pictures: $(STAMP) ## Take the pictures of docs/images from real pipelines and brokers
	FENCELINE_TEST_SCREENSHOTS=docs/images $(BIN)/pytest -q -p no:cacheprovider tests/browser/test_story.py tests/browser/test_stuck.py::test_a_producer_left_open_is_named_and_fenced

lock: | $(UV) ## Resolve the dependencies again (hashes, no registry host in the files)
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group dev -o requirements/dev.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -c requirements/dev.lock -o requirements/server.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/worker.in -c requirements/server.lock -o requirements/worker.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/quix.in -o requirements/quix.lock

clean: ## Remove the environment and caches of this checkout
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis
