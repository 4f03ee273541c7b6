# One target per intention; `make help` lists them. What a target needs is set up first: `.venv` is made from the
# hash-locked constraints/ when it is missing or out of date.
.DEFAULT_GOAL := help
.PHONY: help run worker test test-gpu sanitize stress prove malformed fuzz fuzz-api chaos chaos-long chaos-cells machine soak test-images check fix site docs kernel-resources assembly recorded constraints audit sbom sizes bench-service bench-peers bench-path bench-versions bench-client bench-dashboard bench-kernels bench-library bench-accuracy bench-auto bench-presets images report tune clean env-run env-dev env-fuzz

BIN := .venv/bin
ARGS ?=
DEVICE ?= cpu
# GPU packages: auto (as the driver says), 12, 13 or none.
CUDA ?= auto
FOR_USERS := run worker test test-gpu tune site clean help
CUDA_SOURCES = $(wildcard kernels/cuda/*/*.cu kernels/cuda/*/*.cuh worker/cuda/src/*.cu worker/cuda/src/*.cuh tools/kernels/tracing/*)

# The first Python ≥ 3.11 that can make a virtual environment and has pip or brings it.
IS_SUITABLE := import sys, importlib.util as u; \
	sys.exit(sys.version_info < (3, 11) or not u.find_spec("venv") or not (u.find_spec("ensurepip") or u.find_spec("pip")))
SUITABLE_PYTHON = $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c '$(IS_SUITABLE)' 2>/dev/null && echo $$name && break; done)
NO_PYTHON := No Python 3.11 or newer with the venv module and pip was found. Install one (Debian, Ubuntu: \
	apt-get install python3 python3-venv) or name it: make run PYTHON=/path/to/python3

help: ## list the targets
	@awk -v users="$(FOR_USERS)" -f tools/make_help.awk $(MAKEFILE_LIST)

run: env-run ## start everything on this machine: embedded Valkey, workers, API on 127.0.0.1:8000; Ctrl-C stops it
	@exec $(BIN)/python -m service.local

worker: env-run ## one more worker, of the service at MATMUL_REDIS_URL: make worker DEVICE=gpu:0
	@exec $(BIN)/python -m worker --device $(DEVICE)

# Tests start some hundred processes of ours: each would compile all that it imports, where Python may not keep it.
# Much of a test's time is waiting, so more of them run than a small machine has cores. The long groups of
# tests/conftest.py come first by name, and must not be moved behind files that have more tests.
# BLAS's own threads would spin beside those processes; a worker still has as many as its settings say.
# A test that hangs ends its process (pyproject.toml), and the run ends with it.
test: export PYTHONDONTWRITEBYTECODE =
test: export OPENBLAS_NUM_THREADS = 1
test: export OPENBLAS_THREAD_TIMEOUT = 14
test: env-dev ## every test that needs no GPU, on a real Valkey and real workers; ARGS go to pytest
	$(BIN)/pytest --numprocesses 4 --max-worker-restart 0 --no-loadscope-reorder --ignore tests/gpu $(ARGS)

# With PYTHON=python3 that Python is used as it is: for a GPU machine that brings its own CuPy and no package index.
test-gpu: $(if $(PYTHON),,env-dev) ## the tests that need an NVIDIA GPU; without one they fail
	MATMUL_REQUIRE_GPU=1 $(or $(PYTHON),$(BIN)/python) -m pytest tests/gpu $(ARGS)

sanitize: $(if $(PYTHON),,env-dev) ## every CUDA kernel under compute-sanitizer's memcheck, racecheck, initcheck and synccheck: ARGS="--kernels naive --seconds 60"
	$(or $(PYTHON),$(BIN)/python) -m tests.gpu.sanitize $(ARGS)

stress: $(if $(PYTHON),,env-dev) ## random products by every kernel, every element checked: ARGS="--count 10000 --processes 4 --seconds 480"
	$(or $(PYTHON),$(BIN)/python) -m tests.stress $(ARGS)

prove: $(if $(PYTHON),,env-dev) ## faults of every kind, and clean products, for the check of products: ARGS="--out benchmarks/results/prove_cpu.json"
	$(or $(PYTHON),$(BIN)/python) -m tests.campaign $(ARGS)

malformed: env-dev ## requests that are wrong in every way that is thought of, recorded run by run, so that it may be cut off and goes on: ARGS="--requests 1000000 --for-s 480 --out benchmarks/results/malformed.json.gz"
	$(BIN)/python -m tests.malformed $(ARGS)

fuzz-api: env-dev ## requests made up from the OpenAPI document of a real service: ARGS="--examples 1000 --out benchmarks/results/fuzz_api.json.gz"
	$(BIN)/python -m tests.openapi $(ARGS)

fuzz: $(if $(PYTHON),,env-fuzz) ## parsers of requests and records, fuzzed by coverage with atheris: ARGS="--target npy --runs 1000000", or ARGS="--for-s 480 --keep --out benchmarks/results/fuzz.json"
	$(or $(PYTHON),$(BIN)/python) -m tests.fuzz $(ARGS)

chaos: env-dev ## 5,000 jobs under 25 faults, every one accounted for, as `make test` runs it; also on an object store, or on two GPUs (--device gpus:0,1): ARGS="--seed 7 --only BUSY", or ARGS="--store s3 --jobs 1500"
	$(BIN)/python -m tests.chaos $(ARGS)

chaos-long: env-dev ## 100,000 jobs under 1,000 faults over six seeds, recorded seed by seed, so that it may be cut off and goes on: ARGS="--for-s 600"
	$(BIN)/python -m tests.chaos $(addprefix --seed ,1 2 3 4 5 6) --jobs 100000 --faults 1000 \
		--out benchmarks/results/chaos.json.gz $(ARGS)

chaos-cells: env-dev ## three cells behind nginx, killed and stopped one at a time while jobs come; the others must not notice: ARGS="--seed 7"
	$(BIN)/python -m tests.chaos.cells $(ARGS)

machine: env-dev ## 50,000 steps in random lives of jobs, on both ledgers, every promise looked at after each: ARGS="--seed 7 --steps 5000"
	$(BIN)/python -m tests.machine $(ARGS)

soak: env-dev ## steady use on every path, a million jobs or --for-s seconds; nothing in the service may grow: ARGS="--for-s 480 --out benchmarks/results/soak.json.gz"
	$(BIN)/python -m tests.soak $(ARGS)

test-images: env-dev ## build both container images and multiply with them (root, Debian)
	PATH="$(CURDIR)/$(BIN):$$PATH" bash docker/test-images

check: env-dev ## lint, format, types (of scripts too, with tsc), import rule, generated docs, house rules, secrets, audit: all without running the service
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(CUDA_SOURCES)
	$(BIN)/python -m tools.check_scripts
	$(BIN)/python -m tools.kernels.resources --check
	$(BIN)/python -m tools.kernels.access --check
	$(BIN)/python -m tools.docs.generate --check
	$(BIN)/python -m benchmarks.tables.write --check
	$(BIN)/python -m benchmarks.tuned_table --check
	$(BIN)/python -m benchmarks.publish --check
	$(BIN)/pytest -q tests/unit/tools/test_house.py tests/unit/tools/test_supply_chain.py
	$(BIN)/python -m tools.audit

sizes: ## what records and the whole tree weigh, in bytes
	@git ls-files -z benchmarks/results | xargs -0 du -bc | tail -1 | sed 's/total/records/'
	@git ls-files -z | xargs -0 du -bc | tail -1 | sed 's/total/tree/'

fix: env-dev ## what tools can mend of `check`
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CUDA_SOURCES)

site: env-dev ## build the documentation site, with search, into site/; a service that runs here serves it at /site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # --quiet would let warnings pass

docs: env-dev ## write the generated parts of docs/ anew; new kernels are traced, which takes g++
	$(BIN)/python -m tools.kernels.access
	$(BIN)/python -m tools.docs.generate
	$(BIN)/python -m benchmarks.tables.write

kernel-resources: env-dev ## compile what is new of the kernels, every config for every GPU; writes kernels/resources/, and tests/unit/data/compiled.json
	$(BIN)/python -m tools.kernels.resources
	$(BIN)/python -m tests.support.kernels.compiled

assembly: env-dev ## record PTX and SASS of kernels that changed (SASS needs nvdisasm on PATH, or named by NVDISASM); writes kernels/assembly/
	$(BIN)/python -m tools.kernels.assembly

recorded: env-dev ## write what ships of benchmarks/results/: kernels/tuned/, which `auto` reads, and our part of kernels/published/
	$(BIN)/python -m benchmarks.tuned_table
	$(BIN)/python -m benchmarks.publish

# In this order each file agrees with the one before: what a GPU needs decides, and tests run on what is shipped.
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
LOCK = $(COMPILE) pyproject.toml --extra embedded --extra report --extra pdf --extra s3 --extra tracing --extra parquet
LOCK_CLIENT = $(COMPILE) client/pyproject.toml
constraints: env-dev ## lock the newest versions that pyproject.toml and client/pyproject.toml allow, with hashes
	$(LOCK) --extra cuda13 --group build -o constraints/cuda13.txt
	$(LOCK) --group dev -c constraints/cuda13.txt -o constraints/dev.txt
	$(LOCK) --group build -c constraints/dev.txt -o constraints/run.txt
	$(LOCK) --extra cuda12 --group build -c constraints/run.txt -o constraints/cuda12.txt
	$(COMPILE) --group fuzz -o constraints/fuzz.txt
	$(LOCK_CLIENT) --extra cli -c constraints/dev.txt -o constraints/client.txt
	$(BIN)/python -m tools.lock_hashes constraints/*.txt

audit: env-dev ## known vulnerabilities in what is locked; without a network it says so and fails nothing, but where MATMUL_REQUIRE_AUDIT=1
	$(BIN)/python -m tools.audit

sbom: env-dev ## write sbom.json, a CycloneDX bill of materials of what is locked: ARGS="--of cuda13 --out sbom.json"
	$(BIN)/python -m tools.sbom $(ARGS)

bench-service: env-dev ## measure the service beside plain numpy; writes benchmarks/results/
	$(BIN)/python -m benchmarks.measure.service $(ARGS)
	$(BIN)/python -m benchmarks.tables.write

bench-peers: env-dev ## measure the service beside PyTriton and a naive service on this CPU; writes benchmarks/results/
	$(BIN)/python -m benchmarks.measure.peers $(ARGS)
	$(BIN)/python -m benchmarks.tables.write

bench-path: $(if $(PYTHON),,env-dev) ## measure the way of a product beside the bare one on a GPU: ARGS="--out benchmarks/results/h200_path_2026-11-23.json"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.path $(ARGS)

bench-versions: $(if $(PYTHON),,env-dev) ## measure this version of the service and another one by turns, on a GPU or a CPU: ARGS="--other ../before --device cpu --out versions.json"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.path.versions $(ARGS)

bench-client: env-dev ## measure the Python client beside the same requests over a bare socket; writes benchmarks/results/
	$(BIN)/python -m benchmarks.measure.client $(ARGS)
	$(BIN)/python -m benchmarks.tables.write

bench-dashboard: env-dev ## measure the dashboard in Chromium; writes benchmarks/results/
	$(BIN)/python -m benchmarks.measure.dashboard $(ARGS)
	$(BIN)/python -m benchmarks.tables.write

images: env-dev ## write docs/images/ anew: screenshots of the service on recorded H200 results, their plots, and the command in a terminal
	$(BIN)/python -m tools.images
	$(BIN)/python -m tools.command_pictures

report: env-dev ## write docs/report_grade_h200.pdf anew: the report of the recorded `grade` run (takes Pango's library)
	$(BIN)/python -m benchmarks.report

bench-kernels: $(if $(PYTHON),,env-dev) ## measure the fast kernels beside cuBLAS on a GPU: ARGS="--out benchmarks/results/h200_vs_cublas.jsonl.gz"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.kernels $(ARGS)

bench-library: $(if $(PYTHON),,env-dev) ## measure cuBLAS tuned and on zero-padded operands: ARGS="--out benchmarks/results/h200_library.json"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.interleaved.library $(ARGS)

bench-accuracy: $(if $(PYTHON),,env-dev) ## record how far float32 kernels are off on operands of every kind: ARGS="--out benchmarks/results/h200_accuracy.json.gz"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.accuracy $(ARGS)

bench-auto: $(if $(PYTHON),,env-dev) ## measure what `auto` takes for random products on a GPU: ARGS="--out benchmarks/results/h200_auto/2026-11-22-1902485404.jsonl.gz"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.auto $(ARGS)

bench-presets: $(if $(PYTHON),,env-dev) ## record benchmark presets through the service: ARGS="--out benchmarks/results/h200 ladder"
	$(or $(PYTHON),$(BIN)/python) -m benchmarks.measure.presets $(ARGS)

tune: env-run ## have live GPU workers measure the shapes that `auto` was asked for: MATMUL_AUTO_MEASURES=asked leaves them to this
	$(BIN)/python -m worker.process.tune

clean: ## remove what the tools made; the state in .matmul stays
	rm -rf site .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

env-run env-dev env-fuzz: env-%:
	@python="$(or $(PYTHON),$(SUITABLE_PYTHON))"; command -v "$${python:-none}" > /dev/null || { echo '$(strip $(NO_PYTHON))' >&2; exit 1; }; \
		"$$python" -m tools.environment $* --cuda $(CUDA)
