# With Python 3.11 or newer, git and make:   make plan   shows the main job;   make test   tests all.
SHELL := /bin/sh
BIN := .venv/bin
CORE := .venv/.core
STAMP := .venv/.installed
TORCH := .venv-torch

.PHONY: help plan test check test-torch bench setup lock clean
help:
	@echo "make plan    set up and run the main example"
	@echo "make test    set up and run every check and test"
	@echo "make test-torch   compare with real torch, transformers and peft modules"
	@echo "make bench   set up and run the speed budgets"
	@echo "make setup   .venv with all that development needs"
	@echo "make lock    pin the newest allowed versions in requirements/dev.txt"
	@echo "make clean   remove .venv and caches"

plan: $(CORE)
	$(BIN)/chipwise plan train llama-2-7b --tokens 2B \
	    --on rtx-4090:8,a100-sxm-80:8,h100-sxm:8,tpu-v5p:16 --deadline 14d

test check: setup
	scripts/check

test-torch: $(TORCH)/.installed
	$(TORCH)/bin/python -m pytest tests/torch

bench: setup
	$(BIN)/pytest tests/bench

setup: $(STAMP)

$(CORE): pyproject.toml requirements/dev.txt
	python=$$(scripts/find-python) && { test -x $(BIN)/python || "$$python" -m venv .venv; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint requirements/dev.txt --editable .
	@touch $@

$(STAMP): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --no-deps --no-build-isolation --editable .
	@touch $@

$(TORCH)/.installed: pyproject.toml requirements/torch.txt requirements/dev.txt
	python=$$(scripts/find-python) && { test -x $(TORCH)/bin/python || "$$python" -m venv $(TORCH); }
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements/torch.txt
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

lock:
	scripts/lock

clean:
	rm -rf .venv $(TORCH) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
