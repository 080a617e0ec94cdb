# Everything that `make` needs it installs into this checkout: `.tools` holds uv, `.venv` the locked dependencies.
# The interpreter itself, never a shim that chooses one: uv does not recognise in a shim the interpreter of an environment.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import os, sys; sys.version_info < (3, 11) and sys.exit(1); print(os.path.realpath(sys._base_executable))' 2>/dev/null && break; done)
UV = .tools/bin/uv
BIN = .venv/bin
RUN_ARGS ?=
# One test process a core and one more, because some tests wait; WORKERS=0 runs everything in one, for a debugger.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: help install run bundle wheel image chart test check test-slow test-all test-kube test-browser bench crds roles clusterctl reference ledger-recording operations format clean pins
.DEFAULT_GOAL := help

help:
	@echo "make install    put the command paddock into .venv/bin"
	@echo "make run        start Paddock on this machine with a simulated cloud (RUN_ARGS='--hosts 50' for options)"
	@echo "make test       run the tests of every change: about five minutes on two cores"
	@echo "make test-slow  run these, the exhaustive grids, the long storms and many seeds, in one session"
	@echo "make test-all   run all tests: test-slow, test-kube and test-browser"
	@echo "make check      formatter, linter, type checker and import rules"
	@echo "make test-kube  run the suites that need a real kube-apiserver (needs Go; the first build takes minutes)"
	@echo "make test-browser  run the page in Chromium or Chrome; pictures are kept in artefacts/"
	@echo "make bundle     build the node agent's bundle for Macs, around the pinned interpreter (INTERPRETER=archive or URL, SHA256=… for another; TARGET=linux-x86_64 INTERPRETER=running to try it here)"
	@echo "make wheel      build the package into dist/"
	@echo "make image      build the container image with docker, podman or buildah (IMAGE_ARGS='--build-arg …' for its arguments)"
	@echo "make chart      pack the chart into dist/, with the image of REGISTRY=host/path (needs helm)"
	@echo "make pins       write the actions of src/paddock/pins.toml into the workflows"
	@echo "make bench      run the benchmarks and print a table"
	@echo "make operations  measure what each operation costs and write it into docs/operating.md (minutes)"

.tools/bin/uv:
	@test -n "$(PYTHON)" || { echo "Paddock needs Python 3.11 or newer with venv: install python3 and python3-venv." >&2; exit 1; }
	@"$(PYTHON)" -m venv .tools || { echo "Python's venv module is missing: install python3-venv." >&2; exit 1; }
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r hack/requirements/uv.txt

# An environment that runs is kept whatever comes first in PATH today: `paddock up` may be running from it.
SYNC = env -u UV_PYTHON -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --quiet --frozen --extra embedded \
	$$(.venv/bin/python -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || echo --python "$(PYTHON)")

# What running needs; `--inexact` leaves the development tools alone where they are installed already.
.venv/installed: pyproject.toml uv.lock | .tools/bin/uv
	@echo "installing what Paddock needs into .venv: a minute or so, once"
	@$(SYNC) --no-dev --inexact
	@touch $@

# What checking and testing needs, too.
.venv/installed-for-development: pyproject.toml uv.lock | .tools/bin/uv
	@$(SYNC)
	@touch $@ .venv/installed

install: .venv/installed

run: .venv/installed
	@exec $(BIN)/paddock up --simulate $(RUN_ARGS)

TARGET ?= darwin-arm64
INTERPRETER ?=
SHA256 ?=
bundle: .venv/installed
	@PYTHONPATH=hack/agent-bundle $(BIN)/python -m agent_bundle build --target "$(TARGET)" --interpreter "$(INTERPRETER)" --sha256 "$(SHA256)" --uv $(UV)

# Compiled modules are kept, whatever the shell says: compiling them again for each process takes longer than most tests.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q
# What pytest gets besides, such as ARGS=--last-failed, which runs only what failed the last time.
ARGS ?=
ONE_SESSION = $(PYTEST) --ignore=tests/kube --ignore=tests/browser -n $(WORKERS) --dist worksteal $(ARGS)

test: .venv/installed-for-development
	@PADDOCK_SIM_AT_MOST=1 $(ONE_SESSION) -m "not slow"

check: .venv/installed-for-development
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo 2>/dev/null || PYTHONPATH=src $(BIN)/lint-imports

# Whatever `make test` runs, exhaustive grids and long storms, and every simulation and incident with all of its seeds
# (`make test` takes the first), in one session. SEEDS=50 runs more seeds, AT_MOST=3 fewer.
SEEDS ?=
AT_MOST ?=
test-slow: .venv/installed-for-development
	@PADDOCK_SIM_SEEDS=$(SEEDS) PADDOCK_SIM_AT_MOST=$(AT_MOST) $(ONE_SESSION)

test-all: check test-slow test-kube test-browser

# Its programs wait for each other most of the time: two modules run beside each other.
test-kube: .venv/installed-for-development
	@$(PYTEST) tests/kube -n 2 --dist loadfile $(ARGS)

test-browser: .venv/installed-for-development
	@$(PYTEST) tests/browser -s $(ARGS)

# `make bench` runs all of them, `make bench node` one.
BENCHES = kube api hosts bootstrap dispatch node startup soak page
bench: .venv/installed-for-development
	@$(BIN)/python -m bench $(filter $(BENCHES),$(MAKECMDGOALS))

ifneq ($(filter bench,$(MAKECMDGOALS)),)
.PHONY: $(BENCHES)
$(BENCHES):
	@:
endif

# What a release consists of, each by one command; the fourth part, the files for clusterctl, is `make clusterctl`.
wheel: .venv/installed
	@$(UV) build --quiet --out-dir dist --build-constraints hack/requirements/build.txt --require-hashes
	@ls dist/*.whl

VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/paddock/__init__.py)
BUILDER ?= $(shell for b in docker podman buildah; do command -v $$b && break; done)
IMAGE ?= paddock:$(VERSION)
IMAGE_ARGS ?=
image:
	@test -n "$(BUILDER)" || { echo "An image needs docker, podman or buildah: install one of them." >&2; exit 1; }
	@"$(BUILDER)" build -t "$(IMAGE)" $(IMAGE_ARGS) .

# Whoever installs the packed chart pulls this image: REGISTRY is host and path, and SOURCE where the project lives.
REGISTRY ?=
SOURCE ?=
chart: .venv/installed-for-development
	@$(BIN)/python hack/packaged.py --registry "$(REGISTRY)" --source "$(SOURCE)" --into dist

# What is pinned, where it cannot be read: the workflows.
pins:
	@"$(PYTHON)" hack/pins.py

crds: .venv/installed-for-development
	@$(BIN)/python hack/crds.py

roles: .venv/installed-for-development
	@$(BIN)/python hack/roles.py

clusterctl: .venv/installed-for-development
	@$(BIN)/python hack/clusterctl.py

reference: .venv/installed-for-development
	@$(BIN)/python hack/reference.py

# What this release says to the ledger's database: later schemas are tried with it (see CONTRIBUTING.md).
ledger-recording: .venv/installed-for-development
	@PADDOCK_WRITE_RECORDING=yes $(BIN)/pytest tests/integration/migrations -q -k a_recording_can_be_made

# What each operation costs, measured in simulation: the table in docs/operating.md.
operations: .venv/installed-for-development
	@PADDOCK_WRITE_OPERATIONS=yes $(BIN)/pytest tests/operations -q -p no:xdist -k cost_what

format: .venv/installed-for-development
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .tools .paddock artefacts dist
