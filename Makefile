# Every target sets up what it needs, in its own virtual environment under .venv/, from the lock
# of the same name in requirements/. A second run reuses it until the lock or pyproject.toml change.
#
#   make test PYTHON=python3.12            another interpreter
#   make test PYTEST_ARGS="-k nuclear"     further arguments to pytest
#   make fuzz MINUTES=60                   how long to try
#   make test WORKERS=4                    pytest processes (default: one a core)
#   make lock LOCK_ARGS=--upgrade          newest versions, rather than those pinned already

PYTHON ?= python3
PYTEST_ARGS ?=
WORKERS ?= auto
MINUTES ?= 5
SPHINX_ARGS ?=
LOCK_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Data sets beside the checkout, unless the caller says where they are (or, with an empty value,
# that there are none).
ifeq ($(origin DM2L_DATA),undefined)
  ifneq ($(wildcard $(CURDIR)/../shared/datasets/.),)
    export DM2L_DATA := $(abspath $(CURDIR)/../shared/datasets)
  endif
endif

# One BLAS thread a process: the tests run one process a core already. scikit-learn skips its
# array-API check unless scipy has array-API support switched on. An empty PYTHONDONTWRITEBYTECODE:
# compiled files are kept, or every process that the tests start would compile the library again.
TEST_ENV := SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
              BLIS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

FUZZ = $(TEST_ENV) PYTHONPATH=src:.:tests .venv/test/bin/python -m

# The interpreter's version is part of the stamp's name, so that another PYTHON rebuilds.
PYTHON_VERSION := $(shell $(PYTHON) -c 'import platform; print(platform.python_version())')
READY := .ready-$(PYTHON_VERSION)

.PHONY: help demo test test-oldest test-torch test-labelstudio browser fuzz fits kills lint docs docs-source docs-links walk bench reproduce-quick reproduce release lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/demo/$(READY)  ## fit and score a model on a small data set
	.venv/demo/bin/dm2l demo

test: .venv/test/$(READY)  ## the tests and every documented example, newest dependencies
	$(TEST_ENV) .venv/test/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-oldest: .venv/oldest/$(READY)  ## the same, oldest supported dependencies (Python 3.11, 3.12)
	$(TEST_ENV) .venv/oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# Tests that need torch are skipped by the other targets: it is too large for them.
test-torch: .venv/torch/$(READY)  ## the tests that mention torch, with torch
	$(TEST_ENV) .venv/torch/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) \
	  src/dm2l/torch.py docs/guide/networks.md $$(grep -rlw torch tests --include='test_*.py')

browser:  ## a browser for the tests of the review page: Debian's chromium, where there is none
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  if command -v $$name; then exit 0; fi; \
	done; \
	if ! command -v apt-get > /dev/null; then \
	  echo 'Install Chromium or Google Chrome: apt-get is not here to do it.' >&2; exit 1; \
	fi; \
	sudo=; if [ "$$(id -u)" -ne 0 ]; then sudo=sudo; fi; \
	apt="timeout 600 apt-get --quiet -o Acquire::Retries=1 -o Acquire::http::Timeout=30"; \
	$$sudo $$apt update && $$sudo $$apt install --yes --no-install-recommends chromium

# It runs in an environment of its own, for it pins most of what it uses.
test-labelstudio: .venv/test/$(READY) .venv/labelstudio/$(READY)  ## with a real Label Studio; takes minutes
	$(TEST_ENV) DM2L_LABEL_STUDIO=$(CURDIR)/.venv/labelstudio/bin/label-studio \
	  .venv/test/bin/python -m pytest -s tests/dm2l/labelstudio/test_real.py $(PYTEST_ARGS)

fuzz: .venv/test/$(READY)  ## damaged and hostile input for all that reads, for MINUTES
	$(FUZZ) fuzz --minutes $(MINUTES) --keep build/fuzz -o fuzz/results/last.json

# A hundred thousand take twenty minutes of a core.
fits: .venv/test/$(READY)  ## random fits of all estimators: finite scores or a ValueError
	$(FUZZ) fuzz --kinds fit --cases 100000 --minutes 240 --keep build/fuzz -o fuzz/results/fits.json

kills: .venv/test/$(READY)  ## commands are ended amid their work, and what they leave is looked at
	$(FUZZ) fuzz.kills -o fuzz/results/kills.json

lint: .venv/lint/$(READY)  ## style, format, types, import contract
	.venv/lint/bin/ruff check
	.venv/lint/bin/ruff format --check
	.venv/lint/bin/mypy
	.venv/lint/bin/lint-imports

# Sphinx writes the gallery and the pages of the API beside their sources, so it works on a copy. The
# results of examples that did not change stay there.
SPHINX = $(TEST_ENV) .venv/docs/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet \
           --doctree-dir build/docs/doctrees $(SPHINX_ARGS)

docs-source:
	@mkdir -p build/docs/source/docs
	@find build/docs/source/docs -mindepth 1 -maxdepth 1 ! -name gallery -exec rm -rf {} +
	@cp -Rp docs/. build/docs/source/docs
	@cp -p CHANGELOG.md build/docs/source

docs: .venv/docs/$(READY) docs-source  ## the documentation, in build/docs/html; a warning fails
	@rm -rf build/docs/html
	$(SPHINX) --builder html build/docs/source/docs build/docs/html
	.venv/docs/bin/python docs/local_links.py build/docs/html
	$(TEST_ENV) .venv/docs/bin/python docs/write_output.py --check

docs-links: .venv/docs/$(READY) docs-source  ## whether the addresses in the documentation answer
	$(SPHINX) --builder linkcheck build/docs/source/docs build/docs/linkcheck

walk: .venv/test/$(READY)  ## how far calls go through the library, and how large it is
	$(TEST_ENV) .venv/test/bin/python benchmarks/walk.py

bench: .venv/demo/$(READY)  ## time the solvers
	.venv/demo/bin/python benchmarks/fit.py

# What is stored stays, so both can be stopped and called again. Cells that failed are named, and stop
# neither the others nor the report.
EXPERIMENTS = $(TEST_ENV) .venv/test/bin/python -m experiments
reproduce-quick: .venv/test/$(READY)  ## both protocols on three data sets, and a report on them
	@mkdir -p build
	failed=0; \
	$(EXPERIMENTS) run as_published_quick tuned_quick -o build/quick.jsonl --jobs -1 || failed=$$?; \
	$(EXPERIMENTS) report build/quick.jsonl -o build/quick --study Arts; \
	exit $$failed

reproduce: .venv/test/$(READY)  ## the full protocols and studies, and a report on them; takes weeks of a core
	@mkdir -p build
	failed=0; \
	$(EXPERIMENTS) run as_published tuned tuned_old_tmc -o build/cells.jsonl --jobs -1 || failed=$$?; \
	$(EXPERIMENTS) report build/cells.jsonl -o build/report \
	  --protocols as_published tuned+tuned_old_tmc --study Arts Business; \
	exit $$failed

# RELEASE_TAG, where set, has to be the version's; SOURCE_AT is where the source archive will lie.
release: .venv/demo/$(READY)  ## archives of the last commit, tried and documented, in dist/
	$(TEST_ENV) .venv/demo/bin/python -m release

clean:  ## remove environments, caches and build outputs
	rm -rf .venv build dist .hypothesis .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A failed installation leaves no stamp: the folder goes first, the stamp comes last. --no-deps: a lock
# is complete, and pip would look for an extra that a dependency asks for (coverage[toml]) among all
# versions, find one that is newer than the pin, and refuse it. `pip check` sees that nothing is missing
# where dm2l itself is to run.
# --quiet twice: what an index does not have is not worth a warning; errors still show.
.venv/%/$(READY): requirements/%.txt pyproject.toml
	@echo "Setting up .venv/$* from requirements/$*.txt"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; pass PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@rm -rf .venv/$*
	@$(PYTHON) -m venv .venv/$*
	@.venv/$*/bin/python -m pip install --quiet --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/$*.txt
	@.venv/$*/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@case $* in lock | labelstudio) ;; *) .venv/$*/bin/python -m pip --disable-pip-version-check check ;; esac
	@touch $@

# Each lock holds every hash the package index publishes for a version, for all platforms and every
# Python the project supports. Pins stay where they are as long as they satisfy pyproject.toml.
COMPILE = .venv/lock/bin/uv pip compile --no-config --universal --python-version 3.11 \
          --fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links \
          --custom-compile-command 'make lock' --quiet $(LOCK_ARGS)
OLDEST = --resolution lowest-direct

lock: .venv/lock/$(READY)  ## rewrite requirements/*.txt from pyproject.toml
	$(COMPILE) pyproject.toml requirements/build.in --extra cli -o requirements/demo.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra test -o requirements/test.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra test --extra torch -o requirements/torch.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra test $(OLDEST) -o requirements/oldest.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra lint -o requirements/lint.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra docs -o requirements/docs.txt
	$(COMPILE) requirements/build.in requirements/lock.in -o requirements/lock.txt
	$(COMPILE) requirements/build.in requirements/labelstudio.in -o requirements/labelstudio.txt
	@! grep -nE '://|^ *--(index|extra-index|find)' requirements/*.txt
