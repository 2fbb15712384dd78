# Needs python3 (3.11 or newer) with venv and pip, nothing else. The environment it makes is .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CORE := $(VENV)/.core
DEVELOPMENT := $(VENV)/.development
# One more than the cores of a small machine: the tests of Spark wait for its processes.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help run test api producers producers-venv docs coverage constraints search repeats resident feeding fuzz attack soak crash matrix digests check lint types proto bench clean

help: ## Say what there is.
	@sed -n 's/^\([a-z]*\):.*## /  make \1 \t/p' Makefile

run: $(CORE) ## Set up and run the quick start: a service, a plan, split sets, barriers, a result.
	@$(BIN)/python examples/quickstart.py

test: $(DEVELOPMENT) ## Set up and run the whole test suite.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 2

search: $(DEVELOPMENT) ## Look for bugs with 20 times as many examples, and run what CI leaves out: hours. SEARCH="tests/loops" searches a part.
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --timeout 7200 $(SEARCH)

digests: $(DEVELOPMENT) ## Pin the digests of strict answers for the versions of the engines that are installed.
	$(BIN)/python -m tests.conformance.pinned_digests

repeats: $(DEVELOPMENT) ## Run every relation over every shape of splits 50 times on a busy machine: hours. REPEATS="--record FILE" goes on where an earlier one ended.
	$(BIN)/python -m tests.conformance.repeats $(REPEATS)

resident: $(DEVELOPMENT) ## Measure what each operator kind has resident with rows of 8 B to 10 MB: an hour. RESIDENT="--limit 256 --size 600" gives the tasks more memory, and more rows: longer.
	$(BIN)/python -m tests.conformance.resident $(RESIDENT)

feeding: $(DEVELOPMENT) ## Measure what a service has resident for each way to feed it 1.9 GB of wide rows: half an hour. FEEDING="--files 2" reads a fifth of it.
	$(BIN)/python -m tests.conformance.resident_feeding $(FEEDING)

fuzz: $(DEVELOPMENT) ## Read files of every format that were damaged in 2,000 ways each: half an hour. FIRST_SEED=N takes others.
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest tests/operators/test_damaged_files.py -k damaged_files_neither \
	  --numprocesses $(WORKERS) --timeout 3600 --durations 50

attack: $(DEVELOPMENT) ## Send a server 100,000 requests that are made up, and 20,000 damaged plans with rows: half an hour.
	$(BIN)/python -m tests.server.attack $(ATTACK)
	$(BIN)/python -m tests.server.attack_plans $(ATTACK_PLANS)

soak: $(DEVELOPMENT) ## Load a server with 200 tasks and 50 hostile clients, then with long epochs, and time it: 20 minutes.
	$(BIN)/python -m tests.server.soak $(SOAK)

crash: $(DEVELOPMENT) ## Kill servers at named points and at random instants, SEEDS=500 times: an hour.
	$(BIN)/python -m tests.crash --seeds $(or $(SEEDS),500)

matrix: ## Run the whole test suite on every Python from 3.11 to 3.14 that this machine has.
	@for version in 3.11 3.12 3.13 3.14; do \
	  if python$$version --version >/dev/null 2>&1; then \
	    $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	  else echo "python$$version is not here"; fi; \
	done

check: lint ## Style, and types beside the test suite, as CI runs them (stale generated code included).
	@$(MAKE) --no-print-directory --jobs 2 types test

lint: $(DEVELOPMENT) ## Style.
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(DEVELOPMENT) ## Strict types, of the package as it is installed and of what uses it.
	rm -rf build/lib build/installed
	$(PIP) --no-compile --no-deps --no-build-isolation --target build/installed .
	MYPYPATH=build/installed $(BIN)/python -m mypy -p tidegate
	MYPYPATH=build/installed $(BIN)/python -m mypy examples benchmarks development

proto: $(DEVELOPMENT) ## Generate the code under proto/tidegate again.
	$(BIN)/python -m tidegate.proto.generate

api: $(DEVELOPMENT) ## Write docs/api.md again, from docstrings and .proto files.
	$(BIN)/python -m development.api_page

producers-venv: ## Make .venv-producers and .venv-tpcds: what needs other releases than Tidegate, and writes plans, tables and queries.
	$(PYTHON) -m venv .venv-producers
	.venv-producers/bin/pip install --quiet ibis-substrait==4.0.1 substrait==0.20.0 duckdb-extension-substrait==1.1.3
	$(PYTHON) -m venv .venv-tpcds
	.venv-tpcds/bin/pip install --quiet duckdb==1.5.5 duckdb-extension-tpcds==1.5.5

producers: $(DEVELOPMENT) ## Write docs/producers.md and docs/datafusion-functions.md again, from the answers to DataFusion's plans.
	$(BIN)/python -m tests.producers.page

docs: $(DEVELOPMENT) ## Make a site of the pages in build/site. A link that leads nowhere fails it.
	$(PIP) --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -c development/site . build/site
	@echo build/site/README.html

coverage: $(DEVELOPMENT) ## Run the test suite and report the lines that it does not reach, in build/coverage: an hour.
	$(PIP) --editable '.[coverage]'
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --timeout 1800 \
	  --cov --cov-report term:skip-covered --cov-report html:build/coverage $(TESTS)

constraints: ## Write constraints.txt again: the newest versions within the ranges of pyproject.toml.
	rm -rf build/newest
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,docs,coverage,pyright]'
	echo '# The versions that are tested together. `make constraints` writes this file.' >constraints.txt
	build/newest/bin/python -m pip freeze --all --exclude-editable | grep -v '^pip==' >>constraints.txt

bench: $(DEVELOPMENT) ## Run the benchmarks beside their peers; CASES="epochs --rounds 3" runs some.
	$(BIN)/python -m benchmarks $(CASES)

clean: ## Remove what make made.
	rm -rf .venv .venv-3.* build dist .data benchmarks/results *.egg-info .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

# Compiled on all cores, without the packages' own tests, which are a third of the code. What does not compile is not used.
$(DEVELOPMENT): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --no-compile --editable '.[test]'
	$(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
	@touch $(CORE) $@
