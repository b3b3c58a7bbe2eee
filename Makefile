# SPDX-License-Identifier: Apache-2.0
# make setup    what the other commands need: Debian packages and .venv (they all run it first)
# make demo     builds and installs the wheel, and trains a small network on 1 and on 2 ranks
# make check    formatting, lint, C++ unit tests: before each commit
# make test     everything, ending in one line that counts the tests
# make bench    the benchmarks beside their peers, in a release build, and the plot of the README
#               (BENCH_QUICK=1: fewer rounds, the plot goes to build/results)
# make matrix   the wheel with several versions of Python, frameworks, Spark (MATRIX="torch-2.2 …")
# make chaos    disturbs jobs for CHAOS_SECONDS, chosen by CHAOS_SEED, and checks every result
# make fuzz     long fuzzing of every decoder (FUZZ_SECONDS each)
# make format   rewrites the sources as the formatters want them
# make docs     writes docs/settings.md and the flags of docs/horovodrun.md from the tables in code
# make wheel    the Python packages, in build/dist (SYSROOT=folder: for an older C library)
# make arm64    compiles for 64-bit Arm, and runs unit tests under qemu
#
# The remaining targets are the stages of check and test; each can be run alone.

# Lets ccache work with precompiled headers.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
CHAOS_SECONDS ?= 60
CHAOS_SEED ?= 1
PYTHON := .venv/bin/python
RESULTS := build/results
# An interpreter with the frameworks, for the front ends; the default is made when it is needed, for
# the demo with PyTorch alone.
FRONTEND_PYTHON ?= .venv-frontends/bin/python
ifeq ($(FRONTEND_PYTHON),.venv-frontends/bin/python)
# Each is a copy that is made last: an environment without it is not complete.
TORCH := .venv-frontends/requirements.txt
OTHER_FRAMEWORKS := .venv-frontends/requirements-others.txt
endif

CXX_FILES := $(shell git ls-files --cached --others --exclude-standard '*.h' '*.hpp' '*.cc' '*.c')

.PHONY: setup check test bench matrix chaos fuzz format docs wheel wheel-twice arm64 demo
.PHONY: format-check lint tidy unit python frameworks frontend-env frontends asan tsan fuzz-short

setup:
	@scripts/setup.sh

check: setup
	@$(PYTHON) scripts/run_stages.py $(RESULTS) format-check lint tidy unit

test: setup
	@$(PYTHON) scripts/run_stages.py $(RESULTS) format-check lint tidy unit python frontends asan \
		tsan fuzz-short --fetch frontends=frameworks --build frontends=wheel --build asan=build-asan \
		--build asan=build-fuzz --build tsan=build-tsan

# Where a framework cannot be had, the lines that need it say so and the rest is measured.
bench: setup build-release
	-@$(MAKE) --no-print-directory frontend-env $(OTHER_FRAMEWORKS)
	@$(PYTHON) scripts/run_benchmarks.py build/release --python $(FRONTEND_PYTHON) \
		$(if $(BENCH_QUICK),--quick)
	@$(PYTHON) scripts/plot_benchmarks.py build/results/bench.json \
		$(if $(BENCH_QUICK),build/results,docs/images)

matrix: wheel
	@$(PYTHON) scripts/run_matrix.py build/dist build/matrix $(MATRIX)

# CHAOS_CELL=N runs one cell of the seed alone, CHAOS_ONLY="kill relay" leaves out the others.
chaos: setup build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target hvd hvd_chaos_rank -- --quiet
	$(PYTHON) scripts/run_chaos.py build/dev --seconds $(CHAOS_SECONDS) --seed $(CHAOS_SEED) \
		$(if $(CHAOS_CELL),--cell $(CHAOS_CELL)) $(if $(CHAOS_ONLY),--only $(CHAOS_ONLY))

fuzz: setup build-fuzz
	$(PYTHON) scripts/run_fuzzers.py build/asan --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

format: setup
	clang-format-14 -i $(CXX_FILES)
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format --quiet .

docs: setup build/dev/build.ninja
	cmake --build --preset dev --target settings_page flags_page -- --quiet
	build/dev/core/base/settings_page > docs/settings.md
	build/dev/launcher/plan/flags_page docs/horovodrun.md > build/horovodrun.md
	mv build/horovodrun.md docs/horovodrun.md

demo: frontend-env
	@$(PYTHON) scripts/run_demo.py $(dir $(FRONTEND_PYTHON))horovodrun $(FRONTEND_PYTHON)
	@echo "Where to look next: docs/pytorch.md, examples/, then make test"

# The build folder stays, so that a second wheel takes seconds.
wheel: setup
	@mkdir -p build
	@echo "building the wheels: minutes the first time, then seconds"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) scripts/make_wheels.py build/dist \
		$(if $(SYSROOT),--sysroot $(SYSROOT)) > build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@ls build/dist/*.whl

# Two builds of one commit are the same bytes: the second one from a clone elsewhere.
wheel-twice: wheel
	@rm -rf build/twice && git clone --quiet . build/twice/clone
	@CCACHE_DISABLE=1 CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) build/twice/clone/scripts/make_wheels.py \
		build/twice/dist $(if $(SYSROOT),--sysroot $(SYSROOT)) > build/twice.log 2>&1 || { \
		cat build/twice.log; exit 1; }
	@diff --recursive build/dist build/twice/dist && echo "both builds are the same bytes"

# Compiled for 64-bit Arm by Debian's cross compiler: the library, and the tests of base, net and
# collectives, which run under qemu. Opt-in: an emulated processor is slow.
ARM64_TOOLS := g++-aarch64-linux-gnu qemu-user
ARM64_PACKAGES := libeigen3-dev libfmt-dev libfmt9 libgmock-dev libgtest-dev googletest libhwy-dev libhwy1 \
	libssl-dev libssl3 libyaml-cpp-dev libyaml-cpp0.7 nlohmann-json3-dev
ARM64_TESTS := base|net|kernels|reduction|allreduce|collectives
# qemu has no robust lists, which shared memory and the mesh need, and ends with an assertion of its own
# when a process with threads forks.
ARM64_LEFT_OUT := *Tcp*:*Shm*:*Mesh*:*SharedMemory*:Deterministic.Bits*:Calibrate.GivesTheSame*:Resolver.AForked*

build/arm64-root: | setup
	@scripts/make_sysroot.sh $@ bookworm arm64 $(ARM64_PACKAGES) > build/arm64-root.log

arm64: build/arm64-root
	@dpkg -s $(ARM64_TOOLS) > /dev/null || { echo "run apt-get install $(ARM64_TOOLS)"; exit 1; }
	@cmake --preset arm64 > build/configure-arm64.log || { cat build/configure-arm64.log; exit 1; }
	cmake --build --preset arm64 -j $(JOBS) -- --quiet
	GTEST_FILTER='-$(ARM64_LEFT_OUT)' ctest --test-dir build/arm64 --output-on-failure -R '^($(ARM64_TESTS))_test$$'

# Stages -----------------------------------------------------------------------------------------

format-check: setup
	@clang-format-14 --dry-run -Werror $(CXX_FILES)
	.venv/bin/ruff format --check --quiet .

lint: setup
	.venv/bin/ruff check --quiet .
	$(PYTHON) scripts/check_words.py

tidy: setup build/tidy/build.ninja
	@cmake build/tidy > build/configure-tidy.log  # sources may have come or gone
	$(PYTHON) scripts/run_tidy.py build/tidy --jobs $(JOBS)

unit: setup build-dev
	$(PYTHON) scripts/run_tests.py build/dev --results $(RESULTS)/unit --jobs $(JOBS)

python: setup build-dev
	$(PYTHON) -m pytest -q --junitxml=$(RESULTS)/python/pytest.xml --ignore tests/frontends tests

.venv-frontends/requirements.txt: scripts/requirements-torch.txt | setup
	@scripts/make_venv.sh .venv-frontends scripts/requirements-torch.txt

.venv-frontends/requirements-others.txt: scripts/requirements-others.txt \
		scripts/requirements-no-deps.txt | $(TORCH)
	@echo "adding TensorFlow, Keras, JAX and Spark to .venv-frontends"
	@$(FRONTEND_PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
	@$(FRONTEND_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps \
		-r scripts/requirements-no-deps.txt
	@cp $< $@

frameworks: $(TORCH) $(OTHER_FRAMEWORKS)

frontend-env: wheel $(TORCH)
	@for wheel in build/dist/horovod-*.whl build/dist/horovod_sparkdl-*.whl; do $(FRONTEND_PYTHON) -m pip \
		install --quiet --disable-pip-version-check --force-reinstall --no-deps $$wheel || exit; done

frontends: frontend-env $(OTHER_FRAMEWORKS)
	$(FRONTEND_PYTHON) -m pytest -q --junitxml=$(RESULTS)/frontends/pytest.xml tests/frontends

asan: setup build-asan
	$(PYTHON) scripts/run_tests.py build/asan --results $(RESULTS)/asan --jobs $(JOBS)

tsan: setup build-tsan
	$(PYTHON) scripts/run_tests.py build/tsan --results $(RESULTS)/tsan --jobs $(JOBS)

fuzz-short: setup build-fuzz
	$(PYTHON) scripts/run_fuzzers.py build/asan --seconds 10 --jobs $(JOBS) --results $(RESULTS)/fuzz

.PRECIOUS: build/%/build.ninja
build/%/build.ninja: | setup
	@mkdir -p build
	cmake --preset $* > build/configure-$*.log || { cat build/configure-$*.log; exit 1; }

build-%: build/%/build.ninja
	cmake --build --preset $* -j $(JOBS) -- --quiet

# The fuzzers share the layers of the tests.
build-fuzz: build/asan/build.ninja
	cmake --build --preset fuzz -j $(JOBS) -- --quiet
