# Two commands matter: `make grpo` trains, `make test` tests. Both install what they need first.
# Needs Python 3.11 and make >= 4; nothing has to be activated.

VENV ?= .venv
LOCK := requirements/cpu.lock
PYTHON := $(VENV)/bin/python
# The stamp carries the lock's checksum: it is there exactly when this content is installed.
STAMP := $(VENV)/installed-$(firstword $(shell cksum $(LOCK)))

ARGS ?=

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help install prepare grpo test test-all lint clean

help:
	@echo 'make grpo      train: recipe discover on SmolLM2-135M, six steps on two cores'
	@echo '               options: make grpo ARGS="recipe=discover train.steps=2 run.dir=runs/mine"'
	@echo '               KEEP_RAY=1 leaves the Ray head running, DASHBOARD_PORT=8266 moves it'
	@echo 'make test      the tests, without those that take minutes'
	@echo 'make test-all  all tests'
	@echo 'make lint      ruff and mypy'
	@echo 'make install   the pinned packages into $(VENV), once'
	@echo 'make prepare   the embedded model, once'
	@echo 'make clean     remove caches and build output; $(VENV) and runs stay'

install: $(STAMP)

$(STAMP):
	@sh requirements/install.sh $(VENV) $(LOCK)
	@rm -f $(VENV)/installed-*
	@touch $@

prepare: $(STAMP)
	@$(PYTHON) launch/prepare.py

grpo: prepare
	@$(PYTHON) launch/local.py $(ARGS)

test: $(STAMP)
	@$(PYTHON) -m pytest -m "not heavy"

test-all: $(STAMP)
	@$(PYTHON) -m pytest

lint: $(STAMP)
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
