# Every target works from a clean clone: its prerequisites are made first, and made again only when their inputs change.

# Empty means the Python of an existing .venv, otherwise python3.
PYTHON ?=
VENV ?= .venv
ARGS ?=
IMAGE ?= asset-watcher:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# For two processors: tests also wait for servers and for time to pass; tests with Spark wait less.
WORKERS ?= 4
WORKERS_MORE ?= 3
# The share of the way from the short forms of the tests in CI to the long ones.
SHARE ?= 1
# Whether `make release` runs check and test first.
CHECKS ?= yes

BIN := $(VENV)/bin
ifeq ($(PYTHON),)
STAMP := $(firstword $(wildcard $(VENV)/.ready-*) $(VENV)/.ready-python3)
else
STAMP := $(VENV)/.ready-$(notdir $(PYTHON))
endif
INSTALL := tools/install $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header --no-annotate
# The order is that of tests/conftest.py. Bytecode is always kept, because the tests start hundreds of programs.
TEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --dist loadscope --no-loadscope-reorder
MORE := spark or slow or browser or airflow or maven or container or go or kubernetes

.DEFAULT_GOAL := help
.PHONY: help setup java airflow demo test coverage test-more torture soak simulation check without bench image site requirements release

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: java $(STAMP) ## Make .venv with the pinned requirements and bin/watcher (PYTHON=python3.12 chooses another Python)

java:
	@tools/java

$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml tools/venv tools/install
	@echo "Installing into $(VENV): a few minutes the first time, most of it PySpark ..."
	@tools/venv "$(PYTHON)" "$(VENV)"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements/build.txt
	@DIST_EXTRA_CONFIG=$(CURDIR)/requirements/wheels.cfg $(INSTALL) $(BIN)/python --require-hashes --no-build-isolation -r requirements/dev.txt
	@$(INSTALL) $(BIN)/python --no-deps --no-build-isolation --editable .
	@echo "Making the class archive that lets Spark jobs start quicker: half a minute ..."
	@$(BIN)/watcher spark archive || true
	@touch $@
	@echo "Ready: $(BIN)/watcher"

airflow: setup ## Make an environment with a real Airflow for the tests, and print its Python: for AIRFLOW_PYTHON
	@tools/airflow "$(BIN)/python"

demo: setup ## Watch it work: PostgreSQL, S3 and Spark on this machine (ARGS=--keep stays up)
	@$(BIN)/watcher demo $(ARGS)

test: setup ## Run the tests of every change, in minutes (ARGS="tests/unit -x")
	@$(TEST) -n $(WORKERS) -m "not ($(MORE))" $(ARGS)

coverage: setup ## Run the tests of every change, and print the share of lines that they reach: twice as long before Python 3.12
	@mkdir -p build
	@COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
		$(TEST) -n $(WORKERS) -m "not ($(MORE))" --cov --cov-report= $(ARGS)
	@echo "coverage: $$($(BIN)/coverage report --format=total --precision=1) % of lines"

test-more: setup ## Run the others: Spark, kills, what takes long, and what needs a browser, an Airflow, Maven, a container or Go
	@$(TEST) -n $(WORKERS_MORE) -m "$(MORE)" $(ARGS)

torture: setup ## Every fault for long, one after the other, and a table of what was lost and repeated: hours (SHARE=0.1 is a tenth)
	@WATCHER_TEST_LONG=$(SHARE) PYTHONDONTWRITEBYTECODE= $(BIN)/pytest tests/torture $(ARGS)

soak: setup ## A quarter of an hour under steady load: memory must stay flat (ARGS="--minutes 60 --database sqlite")
	@$(BIN)/python -m tests.torture.soak $(ARGS)

simulation: setup ## Histories of whole daemons in virtual time, minutes (SEEDS=10000, ARGS="--faults" plants faults, "--show 55" tells all)
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),300) --kept $(ARGS)

check: setup ## Lint, format, types, also of the tests and measurements, import boundaries
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy tests tools/ways.py
	@env MYPYPATH=bench $(BIN)/mypy bench
	@$(BIN)/lint-imports --no-logo

without: setup ## Take a feature out of a copy, and run types, import boundaries and tests there (FEATURE=replay; none: the kernel alone)
	@rm -rf "build/without/$(or $(FEATURE),kernel-alone)"
	@$(BIN)/python tools/take_out.py --check $(or $(FEATURE),--kernel-alone) "build/without/$(or $(FEATURE),kernel-alone)"

bench: setup ## Run the side-by-side measurements
	@for script in $(wildcard bench/*.py); do $(BIN)/python "$$script" $(ARGS) || exit 1; done

image: ## Build the container image with docker or podman (IMAGE=name:tag, ARGS="--build-arg BASE=python@sha256:...")
	@tools/image/build $(IMAGE) $(ARGS)

release: setup ## Check, build image, wheels and bill of materials into build/release, and ask whether to tag (CHECKS=no, ARGS for the image)
	@$(BIN)/python tools/release.py --checks $(CHECKS) $(ARGS)

site: ## Build the documentation as a site into build/site; every link is followed
	@tools/venv "$(PYTHON)" build/site-venv
	@$(INSTALL) build/site-venv/bin/python --require-hashes -r requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --quiet
	@echo "Ready: build/site/index.html"

requirements: $(STAMP) ## Pin the newest versions that pyproject.toml allows, with hashes
	@$(COMPILE) --upgrade requirements/build.in -o requirements/build.txt
	@$(COMPILE) --upgrade requirements/image.in -o requirements/image.txt
	@$(COMPILE) --upgrade --extra demo --extra dev pyproject.toml -o requirements/dev.txt
	@$(COMPILE) --upgrade requirements/clients.in -o requirements/clients.txt
	@$(COMPILE) --upgrade requirements/airflow.in -o requirements/airflow.txt
	@$(COMPILE) --upgrade requirements/docs.in -o requirements/docs.txt
	@$(COMPILE) --constraint requirements/dev.txt --extra demo --extra spark pyproject.toml -o requirements/demo.txt
	@$(COMPILE) --constraint requirements/dev.txt --extra spark pyproject.toml -o requirements/runtime.txt
