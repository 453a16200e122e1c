# Every target installs what it needs into .venv. Needs Python 3.10+, Java 17+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIN    := $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-annotate --no-emit-index-url

.PHONY: help setup demo test test-integration test-machines test-all test-spark-versions soak lint docs bench bench-quick bench-elastic lock audit pin-jars clean check-python check-java

help:             ## Show the targets.
	@grep -hE '^[a-z-]+: *.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "penstock needs Python 3.10 or newer; found: $$($(PYTHON) --version 2>&1 || true). Set PYTHON=/path/to/python3.10 or later." >&2; exit 1; }

check-java:
	@version=$$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1); \
	if [ -z "$$version" ] || [ "$$version" -lt 17 ]; then \
	  echo "penstock needs Java 17 or newer on the PATH; found: $${version:-none}. Install a JDK or JRE 17+." >&2; exit 1; fi

setup: check-python check-java $(STAMP)    ## Install penstock and its tools into .venv.

# What builds comes first: pyspark comes as source, and pip would fetch what builds it without a hash.
$(STAMP): pyproject.toml requirements-build.lock requirements-dev.lock | check-python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes --no-build-isolation -r requirements-dev.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

demo: setup       ## WordCount end to end.
	@$(BIN)/penstock demo

# Tests with a broker and Spark run in one process, which shares one broker and one session, beside the unit tests.
test: setup lint  ## Lint, the unit tests, and one integration test per mechanism; under 10 minutes on 2 cores.
	@$(BIN)/pytest -m core --durations=10 --durations-min=1 > $(VENV)/core-tests.log 2>&1 & core=$$!; \
	trap 'kill $$core 2>/dev/null' INT TERM; \
	$(BIN)/pytest -n 2 -m "not integration and not slow" --durations=10 --durations-min=1; units=$$?; \
	wait $$core; core=$$?; cat $(VENV)/core-tests.log; exit $$((units + core))

test-integration: setup    ## All tests with a real broker and Spark but the slow ones; about 15 minutes.
	@$(BIN)/pytest -m "integration and not slow"

test-all: export PENSTOCK_TEST_THOROUGH = 1
test-all: setup lint test-machines    ## Everything: more generated examples, the slow fault and soak suites; hours.
	@$(BIN)/pytest -n 2 -m "not integration"
	@$(BIN)/pytest -m "integration"

test-machines: setup    ## The unit tests under other clocks, time zones, locales, users and folders.
	@$(BIN)/python -m tests.machines

test-spark-versions: setup    ## What penstock uses of Spark's inside, on each minor version of pyspark from 4.0; about 10 minutes.
	@$(BIN)/python -m tests.spark_versions

soak: setup       ## Faults of all kinds under load, SOAK_MINUTES long (60), drawn from SOAK_SEED (1); into bench/results/soak.md.
	@$(BIN)/python -m tests.soak

lint: setup       ## Formatting, types and import contracts.
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log >&2; exit 1; }

docs: setup       ## Build the documentation into site/ and check its links.
	@$(BIN)/python docs/generate.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

bench: setup      ## Measure beside Kafka Streams (Java), all jobs; about an hour and a half, into bench/results.
	@$(BIN)/python -m bench --others

bench-quick: setup      ## WordCount and latency beside Kafka Streams, in under 6 minutes.
	@$(BIN)/python -m bench --quick

bench-elastic: setup    ## Output while instances and executors come, go and die, and tasks have trouble; about half an hour.
	@$(BIN)/python -m bench.elastic
	@$(BIN)/python -m bench.elastic.neighbours

lock: setup       ## Pin with hashes what pyproject.toml and the bench need beyond what is pinned.
	@$(PIN) --group pyproject.toml:build -o requirements-build.lock
	@$(PIN) --group dev --constraint requirements-build.lock pyproject.toml -o requirements-dev.lock
	@for name in quix faust tools; do $(PIN) bench/requirements/$$name.in -o bench/requirements/$$name.lock; done

audit: setup      ## Known vulnerabilities in what the locks pin; needs an index of advisories.
	@for lock in requirements-build.lock requirements-dev.lock deploy/docker/requirements.lock; do \
	  $(BIN)/uv tool run --quiet pip-audit@2.10.1 --strict --disable-pip --require-hashes --progress-spinner off -r $$lock || exit; done

pin-jars: setup   ## Write the hashes of the development broker's jars anew, from Maven Central.
	@$(BIN)/python -m penstock.kafka.broker_jars

clean:            ## Remove what the build made.
	rm -rf $(VENV) .venv-3.* site .mypy_cache .ruff_cache .pytest_cache .hypothesis .venv-spark bench/.venv-* bench/java/target
