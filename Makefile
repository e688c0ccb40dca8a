# Every target sets up .venv itself; a second call finds it ready.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS := .venv-docs
BROWSER := $(VENV)/.browser
SHARED ?= $(if $(PLUSONE_SHARED),$(PLUSONE_SHARED),../shared)
EXTRAS := dev,lite0,lite1,lite2,image,plots,tune,review,serve,onnx,hub,skops,sentences,heic,docs,tensorboard,ray
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal

.PHONY: demo loop test test-fast test-rounding test-accelerator check docs pictures bench results clean

demo: $(READY)
	$(BIN)/plusone demo

# What a reviewer's answers are worth, on UC Merced: about five minutes; the report is loop/report.html.
loop: $(READY)
	$(BIN)/plusone loop $(SHARED)/data/ucmerced/labels.csv --questions 100,500

test: $(READY) $(BROWSER)
	$(PYTEST)

test-fast: $(READY)
	$(PYTEST) -m "not slow"

# Tests whose results depend on rounding, under two other instruction sets.
test-rounding: $(READY)
	ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 $(PYTEST) -m rounding $$(grep -rl mark.rounding tests)
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) -m rounding $$(grep -rl mark.rounding tests)

# For a machine with a GPU: the same checks on the real device. See docs/devices.md for what it prints.
test-accelerator: $(READY)
	$(BIN)/python -m pytest -q -rs -s -m accelerator tests/accelerator

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/house.py

# The documentation as a site in site/, without the internet; a broken link is an error.
docs: $(DOCS)/.ready
	PYTHONPATH=src NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build
	@echo "To read it: $(DOCS)/bin/python -m http.server -d site --bind 127.0.0.1 8000, then http://127.0.0.1:8000"

# The site reads the sources and asks the commands for their help, which needs no torch and no tests.
$(DOCS)/.ready: pyproject.toml constraints.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt typer rich ruff mkdocs-material "mkdocstrings[python]"
	@touch $@

# One table of all speeds beside their goals, and bench.json: about ten minutes.
bench: $(READY)
	$(BIN)/python benchmarks/bench.py $(SHARED)/data

# Makes the example report, the pictures of the documents and the outputs of the notebooks anew: about five minutes.
pictures: $(READY) $(BROWSER)
	$(BIN)/plusone demo --methods --out demo-methods
	cp demo-methods/report.html docs/example-report.html
	PLUSONE_REWRITE=1 $(BIN)/python -m pytest -q -rs -k "picture or notebook" tests/test_notebooks.py tests/browser

# Repeats the measurements of docs/evidence (several hours on two cores); their report is results/report.html.
results: $(READY)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[hints]"
	$(BIN)/python benchmarks/results.py $(SHARED)/data

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "plusone needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV): one or two minutes the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@# pip compiles on one core, which takes as long as the rest; this takes all of them.
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	@touch $@

# Tests of the report need a browser; where it cannot be installed they skip and say why.
APT := apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20
CHROMIUM := $(APT) install -y --no-install-recommends chromium
$(BROWSER): $(READY)
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "Installing chromium for the tests of the report, if this machine may"; \
		{ $(CHROMIUM) || { $(APT) update && $(CHROMIUM); }; } >/dev/null 2>&1 || true; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) $(DOCS) .pytest_cache .mypy_cache .ruff_cache .hypothesis
