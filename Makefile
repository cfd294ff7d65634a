# Two commands do everything: `make demo` and `make test`.  Both set up .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Real data sets stand beside the checkout when they are at hand; tests that need them skip otherwise.
ifneq ($(wildcard ../shared/data),)
export MRFLEARN_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test fuzz check docs wheel format bench reproduce bench-composite bench-crf bench-inference bench-lm bench-piecewise bench-potts bench-spark bench-tagger spark-cluster clean

demo: $(READY)
	$(BIN)/mrflearn demo -o demo-output

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

# Damaged inputs for every reader, N of them on all cores; those that fail are kept in fuzz-findings.
N ?= 1000000
fuzz: $(READY)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --inputs $(N) $(if $(SEED),--seed $(SEED))

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as pages under dist/site; warnings are errors.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel, installed into an empty environment, must do without the source tree.
wheel: $(READY)
	rm -rf dist/wheel dist/empty
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist/wheel .
	$(PYTHON) -m venv dist/empty
	dist/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pytest "$$(ls dist/wheel/*.whl)[plots]"
	cd dist/empty && bin/python -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . --noconftest ../../tests/smoke

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All benchmarks into benchmarks/RESULTS.md; QUICK=1 takes minutes.
bench: $(READY)
	$(BIN)/python benchmarks/run_all.py $(if $(QUICK),--quick)

# Every table and figure of the papers into one page; SCALE=smoke takes minutes.
SCALE ?= full
reproduce: $(READY)
	$(BIN)/python experiments/reproduce.py --scale $(SCALE)

bench-inference: $(READY)
	$(PYTHON) benchmarks/setup_peers.py
	$(BIN)/python benchmarks/inference.py

bench-crf: $(READY)
	$(PYTHON) benchmarks/setup_peers.py crf
	$(BIN)/python benchmarks/crf.py

bench-lm: $(READY)
	$(PYTHON) benchmarks/setup_lm_peers.py
	$(BIN)/python benchmarks/lm.py

bench-potts: $(READY)
	$(BIN)/python benchmarks/potts.py

# One worker against two; needs Java 17.
bench-spark: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	$(BIN)/python benchmarks/spark.py

bench-tagger: $(READY)
	$(PYTHON) benchmarks/setup_peers.py tagger
	$(BIN)/python benchmarks/tagger.py

bench-piecewise: $(READY)
	$(BIN)/python benchmarks/piecewise.py

bench-composite: $(READY)
	$(PYTHON) benchmarks/setup_peers.py composite
	$(BIN)/python benchmarks/composite.py

# A master and two workers on loopback, until Ctrl-C; needs Java 17.
spark-cluster: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	$(BIN)/python tests/support/spark_cluster.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mrflearn needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-output fuzz-findings dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
