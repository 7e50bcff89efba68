#!/usr/bin/env bash
# The long run before a release: everything CI runs, and what takes too long for it. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/timed_steps.sh

asan_full() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset asan-full -DKPT_PYTHON="$python" >/dev/null
  cmake --build build/asan-full
  # libtorch keeps allocations for the life of the process; leaks of our own are covered by the run without it.
  ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan-full --output-on-failure -j "$(nproc)"
}

clang_release() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset clang-release -DKPT_PYTHON="$python" -DKPT_TORCH=ON >/dev/null
  cmake --build build/clang-release
  ctest --test-dir build/clang-release --output-on-failure -j "$(nproc)"
}

step "lint with the analysis of paths" env KPT_LINT_DEEP=1 make lint
step "tests, torch 2.15" make test
step "address and undefined sanitizers, without libtorch" make asan
step "address and undefined sanitizers, with libtorch" asan_full
step "thread sanitizer" make tsan
step "clang" clang_release
step "tests, torch 2.11" env KPT_TORCH_VERSION=2.11.0 make test
step "fuzzing" env KPT_FUZZ_SECONDS="${KPT_FUZZ_SECONDS:-300}" make fuzz
printf '%s\n' "${timings[@]}"
