# Everything a developer runs. `make demo` and `make test` need only Python 3.11, pip and make: each builds its
# own environment the first time, and again when pyproject.toml changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

RAY         := .venv-ray
RAY_STAMP   := $(RAY)/.installed

PEERS       := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
PEERS_LIST  := benchmarks/requirements-peers.txt

# What `make test` and `make bench` hand through: make test PYTEST="-k actors -x", make bench BENCH="--quick".
PYTEST ?=
BENCH  ?=
# Of the whole suite: in how many processes, and which tests are not to share the machine with others.
JOBS   ?= 3
ALONE  := tests/integration/node/test_memory.py
# How long `make chaos` plays, and which random programs: make chaos CHAOS_SECONDS=3600 CHAOS_SEED=7
CHAOS_SECONDS ?= 300
CHAOS_SEED    ?= 1
CHAOS         ?=
# How long `make soak` plays: make soak SOAK_SECONDS=60
SOAK_SECONDS  ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types imports docs docs-serve unit smoke chaos soak soak-actors bench-million chaos-serve load bench bench-serve bench-work fmt clean doctor-table

help:
	@echo "make demo    a first look: start, run tasks and actors, stop"
	@echo "make test    lint, format, types, import contracts, then every test"
	@echo "make smoke   a few quick tests on each other supported Python that this machine has (part of make test)"
	@echo "make test-ray  integration tests on a real Ray cluster, in an environment of its own (a short part is in make test)"
	@echo "make bench   measure sundog, Ray, Dask and the standard library side by side"
	@echo "make browser installs Debian's chromium, in which the page is tested (part of make test)"
	@echo "make disks   installs btrfs-progs, with which one test makes a small disk (part of make test)"
	@echo "make chaos   random programs under random kills for CHAOS_SECONDS=$(CHAOS_SECONDS), from CHAOS_SEED=$(CHAOS_SEED)"
	@echo "make chaos-serve  20 rolling updates of Serve under load, and 20 more under random kills, from CHAOS_SEED"
	@echo "make load    the head process under load: 200 followers, a job that prints 1 GB, 50 jobs in the queue"
	@echo "make soak    one program for SOAK_SECONDS=$(SOAK_SECONDS): fails if memory, descriptors or files grow; draws docs/images/soak.svg"
	@echo "make soak-actors  eleven minutes of actors that come and go: fails if memory, descriptors or files grow"
	@echo "make doctor-table  programs with planted faults: what the doctor finds, into docs/doctor.md (some minutes)"
	@echo "make bench-million  a million tasks, and how long questions about them take; fails if late or not exact"
	@echo "make docs    build the documentation as a site into site/, with every link checked"
	@echo "make fmt     put the code in the house format"
	@echo "make clean   remove environments, caches and build products"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sundog needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# pip compiles what it copies, but not an editable install: where bytecode is not to be written, each session
	@# would compile sundog anew, for half a second of processor time.
	-$(BIN)/python -m compileall -q src
	@touch $@

demo: $(STAMP)
	$(BIN)/sundog demo

# One after the other and cheapest first, also under make -j: the output of the first failure is the last thing
# on the screen.
test: $(STAMP)
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory smoke
	@$(MAKE) --no-print-directory test-ray-short

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# A dead link, a missing page or an anchor that is not there fails the build (`strict` in mkdocs.yml).
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

.PHONY: browser
# Tests of the page drive Debian's Chromium. Where it cannot be installed, they are skipped and say so.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		echo "installing chromium and chromium-driver for the tests of the page"; \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
		  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
		>/dev/null 2>&1 || echo "they cannot be installed here: the tests in a browser will be skipped"; }

.PHONY: disks
# One test writes to a small disk of btrfs, where the kernel has it.
disks:
	@command -v mkfs.btrfs >/dev/null || { \
		echo "installing btrfs-progs for a test of a full disk"; \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
		  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends btrfs-progs; } \
		>/dev/null 2>&1 || echo "they cannot be installed here: that test will be skipped"; }

unit: $(STAMP) browser disks
ifeq ($(strip $(PYTEST)),)
	@# Collecting once leaves the rewritten tests as bytecode: otherwise each of the three processes to come would
	@# rewrite all those that changed.
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@# Much of the suite is waiting, so three processes share it. What needs to know how much memory the machine has
	@# left comes first, by itself.
	$(BIN)/python -m pytest $(ALONE)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=20 --durations-min=3 $(addprefix --deselect=,$(ALONE))
else
	$(BIN)/python -m pytest $(PYTEST)
endif

# A few quick tests on the other Pythons that are supported and found here, each in a small environment of its own.
smoke: $(STAMP)
	$(BIN)/python -m tests.smoke

.PHONY: test-ray test-ray-short autoscaling-picture
# Ray has an environment of its own, as the peers have. Where it cannot be installed, make test says so and goes on.
$(RAY_STAMP): pyproject.toml
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check 'ray[default]==2.60.*' --editable '.[dev]'
	@# Where bytecode is not to be written each process of Ray would compile Ray anew, for seconds.
	-$(RAY)/bin/python -m compileall -q -j 0 $(RAY)/lib/python3*/site-packages/ray >/dev/null 2>&1
	@touch $@

test-ray: $(RAY_STAMP)
	RAY_AUTH_MODE=disabled $(RAY)/bin/python -m tests.on_ray $(PYTEST)

# A cluster whose autoscaler goes from no worker to two and back, as its timeline: docs/images/autoscaling.png
autoscaling-picture: $(RAY_STAMP) browser
	RAY_AUTH_MODE=disabled $(RAY)/bin/python -m tests.ray_engine.picture

test-ray-short: $(STAMP)
	@if $(MAKE) --no-print-directory $(RAY_STAMP) >/dev/null 2>&1; then \
		RAY_AUTH_MODE=disabled $(RAY)/bin/python -m tests.on_ray --short; \
	else \
		echo "make test-ray-short: Ray 2.60 could not be installed into $(RAY), so the tests on a Ray cluster did not run."; \
	fi

chaos: $(STAMP)
	$(BIN)/python -m tests.chaos --seconds $(CHAOS_SECONDS) --seed $(CHAOS_SEED) $(CHAOS)

chaos-serve: $(STAMP)
	$(BIN)/python -m tests.serve_chaos --seed $(CHAOS_SEED) $(CHAOS)

# Programs with planted faults and their mended twins; writes the table of docs/doctor.md. On a busy machine: TRIES=3
TRIES ?= 2
doctor-table: $(STAMP)
	@# A few of the programs use these; without them they would be left out.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pandas threadpoolctl
	$(BIN)/python -m tests.advice.table --tries $(TRIES) --write docs/doctor.md

load: $(STAMP)
	SUNDOG_TEST_LOAD=1 $(BIN)/python -m pytest -q tests/integration/head/test_load.py

.PHONY: timeline-pictures doctor-picture
# The page of `sundog timeline --html` with 20 and 100,000 tasks, photographed in chromium: docs/images/timeline-*.png
timeline-pictures: $(STAMP) browser
	$(BIN)/python -m tests.docs.pictures

doctor-picture: $(STAMP)
	$(BIN)/python -m tests.advice.picture docs/images/doctor.svg

.PHONY: flame-picture
flame-picture: $(STAMP)
	$(BIN)/python -m tests.profiling.picture docs/images/flame.png

soak: $(STAMP)
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) --picture docs/images/soak.svg

bench-million: $(STAMP)
	$(BIN)/python -m benchmarks.million

soak-actors: $(STAMP)
	$(BIN)/python -m tests.soak --program actors --seconds 660 --picture docs/images/soak-actors.svg

# The peers live in an environment of their own: their dependencies shall never decide ours.
$(PEERS_STAMP): $(PEERS_LIST)
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(PEERS_LIST)
	@touch $@

bench: $(STAMP) $(PEERS_STAMP)
	$(BIN)/python -m benchmarks $(BENCH)

# Serve beside plain uvicorn + FastAPI, and beside Ray Serve: make bench-serve BENCH="--ray PYTHON"
bench-serve: $(STAMP)
	$(BIN)/python -m benchmarks.serve $(BENCH)

bench-work: $(STAMP) $(PEERS_STAMP)
	$(BIN)/python -m benchmarks.realwork $(BENCH)

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(RAY) .venv-3.* $(PEERS) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
