# The two commands are `make demo` and `make test`; both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check prove clean

# Made anew only when what it is made of changes.
setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Paceline needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv || { echo 'On Debian and Ubuntu: apt install python3-venv'; exit 1; }
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch .venv/ready

demo: setup
	$(BIN)/paceline study demo

# All checks, then all tests.
test: check
	$(BIN)/pytest -n 2 -m 'not prove'

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Long proofs: minutes to hours.
prove: setup
	$(BIN)/pytest -m prove --timeout 7200

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
