# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
EXTRA := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo cuda || echo cpu)
BIN := $(VENV)/bin

.PHONY: demo test test-all check clean

demo: $(VENV)/ready
	$(BIN)/dlrm-bench eval baseline:fbgemm --baseline eager,inductor --effort quick

test: $(VENV)/ready
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/ready
	$(BIN)/python -m pytest

check: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# torchrec asks for the CUDA build of fbgemm-gpu, which a machine without a GPU does not want, so it comes without its
# requirements, and those that its modules import come by name.
$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "dlrm-bench needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRA),test]'
	$(BIN)/python -m pip install --quiet --no-deps torchrec==1.8.0
	$(BIN)/python -m pip install --quiet iopath pyre-extensions tensordict torchmetrics tqdm
	touch $@

clean:
	rm -rf $(VENV) build dist
