# Every target works from a clean clone: what a target needs is made first, and made again only when its inputs change.

# Empty: the Python that .venv was made with, or python3 when there is no .venv yet.
PYTHON ?=
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
ifeq ($(PYTHON),)
STAMP := $(firstword $(wildcard $(VENV)/.ready-*) $(VENV)/.ready-python3)
else
STAMP := $(VENV)/.ready-$(notdir $(PYTHON))
endif
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header --no-annotate
NEEDS_MORE := airflow or browser or go or maven

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-all check bench requirements

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: java $(STAMP) ## Make .venv with the pinned requirements and bin/watcher (PYTHON=python3.12 chooses another Python)

java:
	@tools/java

$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml tools/venv
	@echo "Installing into $(VENV): a few minutes the first time, most of it PySpark ..."
	@tools/venv "$(PYTHON)" "$(VENV)"
	@$(INSTALL) --require-hashes -r requirements/build.txt
	@$(INSTALL) --require-hashes --no-build-isolation -r requirements/dev.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@echo "Making the class archive that lets Spark jobs start quicker: half a minute ..."
	@$(BIN)/watcher spark archive || true
	@touch $@
	@echo "Ready: $(BIN)/watcher"

demo: setup ## Watch it work: PostgreSQL, S3 and Spark on this machine (ARGS=--keep stays up)
	@$(BIN)/watcher demo $(ARGS)

test: setup ## Run the tests that need nothing but Python and Java (ARGS="tests/unit -x")
	@$(BIN)/pytest -m "not ($(NEEDS_MORE))" $(ARGS)

test-all: setup ## Run all tests, also those that need a browser, an Airflow, Maven or Go
	@$(BIN)/pytest $(ARGS)

check: setup ## Lint, format, types, import boundaries, documentation
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/unit/docs

bench: setup ## Run the side-by-side measurements
	@for script in $(wildcard bench/*.py); do $(BIN)/python "$$script" $(ARGS) || exit 1; done

requirements: $(STAMP) ## Pin the newest versions that pyproject.toml allows, with hashes
	@$(COMPILE) --upgrade requirements/build.in -o requirements/build.txt
	@$(COMPILE) --upgrade --extra demo --extra dev pyproject.toml -o requirements/dev.txt
	@$(COMPILE) --constraint requirements/dev.txt --extra demo --extra spark pyproject.toml -o requirements/demo.txt
	@$(COMPILE) --constraint requirements/dev.txt --extra spark pyproject.toml -o requirements/runtime.txt
