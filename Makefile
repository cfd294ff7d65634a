# Two commands do everything: `make demo` and `make test`.  Both set up .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Real data sets stand beside the checkout when they are at hand; tests that need them skip otherwise.
ifneq ($(wildcard ../shared/data),)
export MRFLEARN_DATA ?= $(abspath ../shared/data)
endif

# Installing compiles no module, since few of them are ever imported; the first process that imports
# one keeps what it compiled.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test test-lowest test-capabilities coverage fuzz options figures size check docs wheel format bench reproduce bench-composite bench-crf bench-inference bench-lm bench-nn bench-piecewise bench-potts bench-spark bench-tagger spark-cluster clean

demo: $(READY)
	$(BIN)/mrflearn demo -o demo-output

# Processes that run tests; each computes with one thread.
JOBS ?= 2
PYTEST := -m pytest -n $(JOBS) --dist worksteal -q

# All but the tests of the installed wheel, which `make wheel` runs.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) --ignore=tests/smoke

# The same with the lowest versions that pyproject.toml allows, in an environment of their own; Python 3.11 or 3.12.
test-lowest: .venv-lowest/.ready
	OMP_NUM_THREADS=1 .venv-lowest/bin/python $(PYTEST) -p no:cacheprovider

# The same with each instruction set that torch can be told to keep to and with one and two threads.
# PART=... selects tests: a few folders where arithmetic decides take a minute for each combination.
CAPABILITIES ?= default avx2 avx512
THREADS ?= 1 2
PART ?=
test-capabilities: $(READY)
	@set -e; for capability in $(CAPABILITIES); do \
	  has=$$(ATEN_CPU_CAPABILITY=$$capability $(BIN)/python -c 'import torch; print(torch.backends.cpu.get_cpu_capability().lower())'); \
	  if [ "$$has" != "$$capability" ]; then echo "not run: this processor has no $$capability"; continue; fi; \
	  for threads in $(THREADS); do \
	    echo "ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads"; \
	    ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads OMP_WAIT_POLICY=passive \
	      $(BIN)/python $(PYTEST) -n $$((($(JOBS) + threads - 1) / threads)) $(PART); \
	  done; \
	done

# Branch coverage of src, subprocesses included; what no test executes is listed, and shown in dist/coverage.
coverage: $(READY)
	$(BIN)/python $(INSTALL) -c constraints.txt -e . --group dev --group coverage
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) --cov --cov-report=term --cov-report=html:dist/coverage

# Damaged inputs for every reader, N of them on all cores; those that fail are kept in fuzz-findings.
N ?= 1000000
fuzz: $(READY)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --inputs $(N) $(if $(SEED),--seed $(SEED))

# The options of `mrflearn train`, from the signatures and docstrings of the estimators.
options: $(READY)
	PYTHONPATH=tests $(BIN)/python tests/support/option_table.py

# Lines of code, files, long modules, names used twice; ALONE=1 lists modules with one importer.
size: $(READY)
	$(BIN)/python benchmarks/size.py $(if $(ALONE),--alone)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as pages under dist/site; warnings are errors.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel, installed into an empty environment, must do without the source tree.
wheel: $(READY)
	rm -rf dist/wheel dist/empty
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist/wheel .
	$(PYTHON) -m venv dist/empty
	dist/empty/bin/python $(INSTALL) -c constraints.txt pytest "$$(ls dist/wheel/*.whl)[plots]"
	cd dist/empty && bin/python -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . --noconftest ../../tests/smoke

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All benchmarks into benchmarks/RESULTS.md; QUICK=1 takes minutes.
bench: $(READY)
	$(BIN)/python benchmarks/run_all.py $(if $(QUICK),--quick)

# Every table and figure of the papers into one page; SCALE=smoke takes minutes, TIME=3600 does what
# fits into an hour, and PLAN=1 only says what that would be.
SCALE ?= full
reproduce: $(READY)
	$(BIN)/python experiments/reproduce.py --scale $(SCALE) $(if $(TIME),--time $(TIME)) $(if $(PLAN),--plan)

# Tables of figures on pages, from committed rows and outputs; lists figures and rows behind the code.
figures: $(READY)
	$(BIN)/python experiments/figures.py

bench-inference: $(READY)
	$(PYTHON) benchmarks/setup_peers.py inference
	$(BIN)/python benchmarks/inference.py
	$(if $(MRFLEARN_DATA),$(BIN)/python benchmarks/queries.py)

bench-crf: $(READY)
	$(PYTHON) benchmarks/setup_peers.py crf
	$(BIN)/python benchmarks/crf.py

bench-lm: $(READY)
	$(PYTHON) benchmarks/setup_lm_peers.py
	$(BIN)/python benchmarks/lm.py

# Torch modules; DEVICE=cuda for a GPU.
bench-nn: $(READY)
	$(PYTHON) benchmarks/setup_peers.py nn
	$(BIN)/python benchmarks/nn.py $(if $(DEVICE),--device $(DEVICE))

bench-potts: $(READY)
	$(BIN)/python benchmarks/potts.py

# 1, 2 and (with the cores) 4 workers, into results/spark.json and the pages; needs Java 17.
bench-spark: $(READY)
	$(BIN)/python benchmarks/run_all.py --only spark
	$(BIN)/python experiments/figures.py

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
	$(BIN)/python tests/support/spark_cluster.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mrflearn needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade 'pip>=25.1' # dependency groups
	$(BIN)/python $(INSTALL) -c constraints.txt -e . --group dev
	touch $@

.venv-lowest/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	.venv-lowest/bin/python $(INSTALL) -c constraints-lowest.txt -e . --group test
	touch $@

clean:
	rm -rf $(VENV) .venv-lowest .coverage .coverage.* demo-output fuzz-findings dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
