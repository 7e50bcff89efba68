# The front door. Every target does its own set-up; a second run sets up and builds nothing again.
# KPT_PYTHON=python3 uses an interpreter that is there and installs nothing; KPT_TORCH_VERSION=2.11.0 takes another torch.
# `make quickstart PRESET=cuda-release`, and `install` likewise, make the product with the parts for NVIDIA GPUs.

.DEFAULT_GOAL := help
SHELL := bash
PREFIX ?= /usr/local
JOBS := $(shell nproc)
# ThreadSanitizer needs a plain address space; some containers forbid asking for one, and some kernels give it anyway.
PLAIN_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# Two clones share compiled objects: paths below the clone are relative in the cache key.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

# One build folder per torch version, so that switching back and forth rebuilds nothing.
SUFFIX := $(if $(KPT_TORCH_VERSION),-torch$(KPT_TORCH_VERSION))
BUILD := build/cpu-release$(SUFFIX)
PRESET := cpu-release
PRODUCT := build/$(PRESET)$(SUFFIX)

# $(call configure,PRESET[,CMAKE ARGUMENTS]): set-up and CMake; its output is shown only when it fails. What some targets
# add is taken away for all others: a build folder remembers what it was configured with.
define configure
	@tools/setup_packages.sh
	@python=$$(tools/setup_python.sh) && export KPT_PYTHON="$$python" && \
	  { cmake --preset $(1) -B build/$(1)$(SUFFIX) -DKPT_PYTHON="$$python" -DKPT_BENCHMARKS=OFF -DKPT_XLA_RUNS=OFF -DKPT_CUDA_GPUS=all $(2) \
	  >build/$(1)$(SUFFIX).log 2>&1 || \
	  { cat build/$(1)$(SUFFIX).log; exit 1; }; }
endef

# $(call configure_and_build,PRESET[,CMAKE ARGUMENTS[,TARGET]])
define configure_and_build
	$(call configure,$(1),$(2))
	@cmake --build build/$(1)$(SUFFIX) $(if $(3),--target $(3))
endef

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build:
	@mkdir -p build

.PHONY: setup
setup: ## system packages and the Python environment, nothing else
	@tools/setup_packages.sh
	@tools/setup_python.sh

.PHONY: quickstart
quickstart: | build ## build, optimize a real model at each level, then show what this machine can do
	@tools/quickstart.sh $(PRESET) $(PRODUCT)

# What quickstart builds.
.PHONY: product
product: | build
	$(call configure_and_build,$(PRESET),-DKPT_TORCH=ON,kpt_product)

.PHONY: test
test: | build ## build and run all tests
	$(call configure_and_build,cpu-release,-DKPT_TORCH=ON)
	@ctest --test-dir $(BUILD) --no-tests=error --output-on-failure -j $(JOBS)

# Sources that are joined for the compiler are read faster; one by one they show a missing include.
LINT_PRESET := $(if $(KPT_LINT_DEEP),cpu-debug,cpu-release)

.PHONY: lint
lint: | build ## formatting, clang-tidy, layers, sizes, headers, options, parity
	$(call configure,$(LINT_PRESET),-DKPT_TORCH=ON)
	@tools/lint.sh build/$(LINT_PRESET)$(SUFFIX) "$$(tools/setup_python.sh)"

.PHONY: asan
asan: | build ## tests under AddressSanitizer and UBSan, without libtorch
	$(call configure_and_build,asan)
	@ctest --test-dir build/asan$(SUFFIX) -LE fuzz --no-tests=error --output-on-failure -j $(JOBS)

.PHONY: asan-build
asan-build: | build
	$(call configure_and_build,asan)

.PHONY: tsan
tsan: | build ## tests under ThreadSanitizer
	$(call configure_and_build,tsan,-DKPT_TORCH=ON)
	@TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 $(PLAIN_ADDRESSES) ctest --test-dir build/tsan$(SUFFIX) --no-tests=error --output-on-failure -j $(JOBS)

.PHONY: fuzz
fuzz: | build ## every fuzz target for KPT_FUZZ_SECONDS (20)
	$(call configure_and_build,asan,,kpt_fuzzers)
	@ctest --test-dir build/asan$(SUFFIX) -L fuzz --no-tests=error --output-on-failure -j $(JOBS)

.PHONY: gpu-test
gpu-test: | build ## build with the CUDA parts and run all tests, those for GPUs too
	$(call configure_and_build,cuda-release,-DKPT_BENCHMARKS=ON)
	@ctest --test-dir build/cuda-release$(SUFFIX) --no-tests=error --output-on-failure -j $(JOBS)
	@set -o pipefail; build/cuda-release$(SUFFIX)/bin/kpt doctor | tee build/gpu-doctor.txt
	@grep -q 'pass  cuda:0 float32 ' build/gpu-doctor.txt || { echo "gpu-test: no GPU computed anything here" >&2; exit 1; }

.PHONY: gpu-sanitize
gpu-sanitize: | build ## on a machine with an NVIDIA GPU: the kernels' tests under compute-sanitizer, memcheck and racecheck
	@tools/gpu_sanitize.sh find >/dev/null
	$(call configure_and_build,cuda-release,-DKPT_BENCHMARKS=ON,kpt_kernels_gpu_cuda_test)
	@tools/gpu_sanitize.sh build/cuda-release$(SUFFIX)/test_bin/kpt_kernels_gpu_cuda_test

.PHONY: amd-test
amd-test: | build ## on a machine with an AMD GPU: its runtime, our kernels compiled and run on it, models against fp64
	$(call configure_and_build,cpu-release,-DKPT_TORCH=ON)
	@python=$$(tools/setup_python.sh) && tools/amd_test.sh $(BUILD) "$$python"

# What `make cuda-compile` asks nvcc for: each architecture is a pass over all kernels. CUDA_GPUS=all as in the product.
CUDA_GPUS ?= 90

.PHONY: cuda-compile
cuda-compile: | build ## compile the CUDA parts and open them; needs no GPU, and nvcc only for our own kernels
	$(call configure_and_build,cuda-release,-DKPT_CUDA_GPUS=$(CUDA_GPUS),kpt_engines_aten_test kpt_cuda_kernels)
	@ctest --test-dir build/cuda-release$(SUFFIX) --no-tests=error -R '^Torch(Cuda)?Module' --output-on-failure

.PHONY: tpu-aot
tpu-aot: | build ## compile the test set for TPUs that are not here, with Google's compiler; emulated where this is no x86_64
	@tools/tpu_aot.sh setup >/dev/null
	$(call configure_and_build,cpu-release,-DKPT_TORCH=ON,kpt_product kpt_engines_xla_test)
	@tools/tpu_aot.sh $(BUILD)

.PHONY: tpu-check
tpu-check: tpu-build ## every lowering in one module, compiled for v5e and v6e by Google's compiler
	@tools/tpu_check.sh $(BUILD)

.PHONY: tpu-build
tpu-build: | build
	@tools/tpu_aot.sh setup >/dev/null
	$(call configure_and_build,cpu-release,-DKPT_TORCH=ON,kpt_every_lowering_test)

# What `make bench` compares with PyTorch eager: the whole test set, which takes 25 GB of disk and hours in full size.
# BENCH_MODELS='bert_fp32_static llama*' takes some of it, BENCH_SIZE=small the sizes of the tests.
BENCH_SIZE ?= full
BENCH_MODELS ?= *

.PHONY: bench
bench: | build ## benchmarks: ours, a chain of tiny operations, loading, and the test set against PyTorch eager
	$(call configure_and_build,cpu-release,-DKPT_TORCH=ON -DKPT_BENCHMARKS=ON)
	@python=$$(tools/setup_python.sh) && set -f && benchmarks/run_all.sh $(BUILD) "$$python" $(BENCH_SIZE) $(BENCH_MODELS)

.PHONY: install
install: | build ## build the product and install it below PREFIX (/usr/local)
	$(call configure_and_build,$(PRESET),-DKPT_TORCH=ON,kpt_product)
	@cmake --install $(PRODUCT) --prefix "$(PREFIX)" || \
	  { echo "install: built; try  sudo cmake --install $(PRODUCT) --prefix $(PREFIX)" >&2; exit 1; }

.PHONY: check-full
check-full: ## the long run: deep lint, tests, gate, XLA, AMD kernels, clang, sanitizers with libtorch, PyTorch 2.11 to 2.14, longer fuzzing
	@tools/check_full.sh

.PHONY: clean
clean: ## remove the build folders
	rm -rf build
