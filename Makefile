# The two commands are `make demo` and `make test`; both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

.PHONY: setup demo test check chromium iproute2 prove clean

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
	$(BIN)/paceline report runs/demo --out runs/demo/report.html

# All checks, then all tests, with the lines of the package that they run. Fails below fail_under of pyproject.toml.
test: check chromium iproute2
	$(BIN)/pytest -n 2 -m 'not prove' --cov --cov-report=term-missing:skip-covered

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The report's page is tested in a real browser. Where there is none and it cannot be installed, those tests are skipped.
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && echo 'Installing chromium for the tests' && \
	    { $(INSTALL) chromium || { apt-get update -qq && $(INSTALL) chromium; }; } > /dev/null; } || \
	  echo 'There is no chromium: the tests of the page will be skipped. On Debian: sudo apt install chromium'

# The testbed is tested with real network namespaces, for which root is needed, too. Without them those tests are skipped.
iproute2:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v tc > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && echo 'Installing iproute2 for the tests' && \
	    { $(INSTALL) iproute2 || { apt-get update -qq && $(INSTALL) iproute2; }; } > /dev/null; } || \
	  echo 'There is no iproute2: the tests of the testbed will be skipped. On Debian: sudo apt install iproute2'

# Long proofs: minutes to hours.
prove: setup
	$(BIN)/pytest -m prove --timeout 7200

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
