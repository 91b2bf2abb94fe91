# Everything runs from here; a clean machine needs only make and Python 3.11 or newer.
#   make demo    run the notebooks and leave the results in demo/
#   make lab     open JupyterLab on copies of the notebooks, in lab/
#   make notebooks   run the notebooks and keep their outputs in notebooks/, for who reads them there
#   make check   linters and fast tests            make test    every test
#   make bench   measure against the baselines     make gpu     everything that needs an NVIDIA GPU
#   make gpu GPU="tests fuzz" runs parts: tests, notebooks, check, inductor, fuzz, bench, or suites of the bench
#   make inductor  functions and models that torch compiles through workbench, on the CPU (CI runs 21 of them)
#   make fuzz    random programs, sources and mutated cells; FUZZ="sources 500 from 7 on sm_90a state fuzz.json" says which
# PYTHON names the interpreter to build on; if it has torch, that torch is kept.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.workbench-installed
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo lab notebooks check test bench gpu fuzz inductor clean

# Who only looks needs nothing of what building the front end took.
demo lab: export WORKBENCH_TIDY = 1

demo: $(STAMP)
	$(BIN)/python notebooks/run_demo.py demo

# Copies: running a notebook changes its file, and those of the repository are tracked.
lab: $(STAMP)
	mkdir -p lab
	for story in notebooks/*.ipynb; do test -e lab/$${story##*/} || cp $$story lab/; done
	test -e lab/puzzles || $(BIN)/workbench puzzles lab/puzzles
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --notebook-dir=lab

notebooks: $(STAMP)
	$(BIN)/python notebooks/store.py

check: $(STAMP)
	$(BIN)/python tests/run.py check

test: $(STAMP)
	$(BIN)/python tests/run.py test

bench: $(STAMP)
	$(BIN)/python tests/bench/run.py

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.run $(FUZZ)

inductor: $(STAMP)
	$(BIN)/python -m tests.inductor.run $(INDUCTOR)

# The GPU machine may have no network and no Jupyter: whatever Python is there runs it from the tree.
gpu:
	PYTHONPATH=$(CURDIR) $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m tests.gpu.run $(GPU)

$(STAMP): pyproject.toml constraints.txt hatch_build.py .ci/environment.py $(wildcard extension/*.json extension/scripts/* extension/src/*.ts extension/src/*/*.ts extension/src/*.css)
	$(PYTHON) .ci/environment.py $(VENV)
	@touch $@

clean:
	rm -rf demo lab build dist workbench/labextension workbench/viewer/static extension/lib $(STAMP)
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
