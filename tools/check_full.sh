#!/usr/bin/env bash
# The long run before a release: everything CI runs, and what takes too long for it.   check_full.sh [STEP…]
# A step that passed is not repeated until the tree changes, so a run that was stopped goes on where it was; names of
# steps run just these. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/timed_steps.sh
all=(lint test browser gate xla amd cuda asan asan-full tsan clang torch-2.11 torch-between fuzz)

run_lint() { KPT_LINT_DEEP=1 make lint; }
run_test() { make test; }
has_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    ! command -v "$name" >/dev/null || return 0
  done
  return 1
}
# The page of `kpt bench --html` in a real browser, which CI does not install (117 MB to download, 423 MB on the disk).
run_browser() {
  local python
  python=$(tools/setup_python.sh)
  has_browser || tools/setup_packages.sh chromium
  if ! has_browser; then
    echo "check_full: chromium is not here and could not be installed: nobody looked at the page" >&2
    return 1
  fi
  cmake --preset cpu-release -DKPT_PYTHON="$python" -DKPT_TORCH=ON >/dev/null
  cmake --build build/cpu-release --target kpt_end_to_end_test
  build/cpu-release/test_bin/kpt_end_to_end_test --gtest_filter='BenchPage.*' | tee build/check_full/browser.log
  if grep -q SKIPPED build/check_full/browser.log; then
    echo "check_full: the tests of the page were skipped: see build/check_full/browser.log" >&2
    return 1
  fi
}
# No false alarm over the exported models: all levels, 20 fresh seeds.
run_gate() { build/cpu-release/test_bin/kpt_zoo_gate_test build/cpu-release/test_models/zoo 20; }
run_xla() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset cpu-release -DKPT_PYTHON="$python" -DKPT_TORCH=ON -DKPT_XLA_RUNS=ON >/dev/null
  cmake --build build/cpu-release
  ctest --test-dir build/cpu-release --output-on-failure -R 'models.xla|LoweringNumbers|LoweringIndices|models.export'
}
# Every kernel for every AMD target that is supported, where CI has four: no spills, within the target's limits; those for
# matrix cores have the instruction of the target's unit. Half an hour the first time; code objects are kept in the build
# folder.
run_amd() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset cpu-release -DKPT_PYTHON="$python" -DKPT_TORCH=ON >/dev/null
  cmake --build build/cpu-release --target kpt_backends_amd_test
  KPT_AMD_TARGETS=all build/cpu-release/test_bin/kpt_backends_amd_test --gtest_filter='*AmdKernels*:AmdMatrix*' |
    tee build/check_full/amd.log
  if grep -q SKIPPED build/check_full/amd.log; then
    echo "check_full: no compiler for some AMD targets (clang-22 and lld-22 know all): see build/check_full/amd.log" >&2
    return 1
  fi
}
# The kernels' tests hold them in waves of 64 too, which nothing else compiles. Only this build has the sources below, so
# clang-tidy sees them here; without nvcc it sees a part of them.
run_cuda() {
  local python
  python=$(tools/setup_python.sh)
  make cuda-compile CUDA_GPUS=all
  cmake -DKPT_BENCHMARKS=ON build/cuda-release >/dev/null
  KPT_LINT_DEEP=1 "$python" tools/run_clang_tidy.py build/cuda-release "$(dirname "$python")/clang-tidy" \
    src/engines/aten/cuda/ src/kernels/gpu/cuda_ benchmarks/
  if [[ $(cmake --build build/cuda-release --target help) == *kpt_kernels_gpu_cuda_test* ]]; then
    cmake --build build/cuda-release --target kpt_kernels_gpu_cuda_test
  fi
}
run_asan() { make asan; }
run_asan-full() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset asan-full -DKPT_PYTHON="$python" >/dev/null
  cmake --build build/asan-full
  # libtorch keeps allocations for the life of the process; leaks of our own are covered by the run without it.
  ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan-full --output-on-failure -j "$(nproc)"
}
run_tsan() { make tsan; }
run_clang() {
  local python
  python=$(tools/setup_python.sh)
  cmake --preset clang-release -DKPT_PYTHON="$python" -DKPT_TORCH=ON >/dev/null
  cmake --build build/clang-release
  ctest --test-dir build/clang-release --output-on-failure -j "$(nproc)"
}
run_torch-2.11() { KPT_TORCH_VERSION=2.11.0 make test; }
# What is compiled against libtorch, with the versions between the oldest and the pinned one.
run_torch-between() {
  local version python folder
  for version in 2.12.1 2.13.0 2.14.1; do
    python=$(KPT_TORCH_VERSION=$version tools/setup_python.sh)
    folder=build/cpu-release-torch$version
    cmake --preset cpu-release -B "$folder" -DKPT_PYTHON="$python" -DKPT_TORCH=ON >/dev/null
    cmake --build "$folder" --target kpt_product kpt_execution_test kpt_engines_aten_test
    KPT_PYTHON=$python "$folder/test_bin/kpt_execution_test" --gtest_brief=1
    KPT_PYTHON=$python "$folder/test_bin/kpt_engines_aten_test" --gtest_brief=1
  done
}
run_fuzz() { KPT_FUZZ_SECONDS="${KPT_FUZZ_SECONDS:-120}" make fuzz; }

# The commit, and what is not committed. A file that cannot be read is its complaint.
untracked() { git ls-files -zo --exclude-standard | xargs -0r sha256sum -- 2>&1 || true; }
tree() { { git rev-parse HEAD; git diff HEAD; untracked; } | sha256sum | cut -c1-16; }

chosen=("$@")
[ $# -gt 0 ] || chosen=("${all[@]}")
for name in "${chosen[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || { echo "check_full: no step '$name'; there are: ${all[*]}" >&2; exit 2; }
done
mkdir -p build/check_full
now=$(tree)
for name in "${chosen[@]}"; do
  if [ "$(cat "build/check_full/$name" 2>/dev/null)" = "$now" ] && [ $# -eq 0 ]; then
    timings+=("  passed  $name, on this tree before")
    continue
  fi
  step "$name" "run_$name"
  echo "$now" > "build/check_full/$name"
done
