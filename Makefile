# `make study` runs the active studies; `make test` runs the tests; `make lint` checks style and types.
PYTHON ?= python3.11
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
EXCLUSIVE := $(PYTHON) workflow/scripts/exclusive.py

.PHONY: study test lint hook

study:
	@$(EXCLUSIVE) .work/make.lock $(MAKE) --no-print-directory _study

test:
	@$(EXCLUSIVE) .work/make.lock $(MAKE) --no-print-directory _test

lint: $(VENV)/.installed-test
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile workflow

# Where git has no such hook yet, it gets the one that checks what dvc.lock is about to record.
hook:
	@hooks=$$(git rev-parse --git-path hooks 2>/dev/null) || exit 0; \
	[ -e "$$hooks/pre-commit" ] || { mkdir -p "$$hooks" && cp workflow/hooks/pre-commit "$$hooks/pre-commit"; }

.PHONY: _study _test
_study: $(VENV)/.installed
	dvc repro
	@onelayer summary

# Two workers, a file each, in the order of the files: those of whole graphs begin early, and wait for Slurm while the
# other computes.
_test: $(VENV)/.installed-test
	pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term $(PYTEST_ARGS)

# requirements.lock pins every package; pyproject.toml says which are wanted.
$(VENV)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("error: Python 3.11 is needed, found " + sys.version.split()[0] if sys.version_info[:2] != (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable .
	@$(MAKE) --no-print-directory hook
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[test]'
	@touch $@
