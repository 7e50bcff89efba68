#!/usr/bin/env bash
# The tests of our kernels on an NVIDIA GPU under compute-sanitizer: memcheck, then racecheck.
#   gpu_sanitize.sh find        prints where compute-sanitizer is; fails with one sentence where it is not
#   gpu_sanitize.sh PROGRAM [ARGUMENT…]
# Fails at the first finding, and when no test of a kernel ran because there is no GPU.
set -euo pipefail

find_sanitizer() {
  local folder
  command -v compute-sanitizer && return
  for folder in ${CUDA_HOME:+"$CUDA_HOME/bin"} /usr/local/cuda/bin; do
    [ ! -x "$folder/compute-sanitizer" ] || { echo "$folder/compute-sanitizer"; return; }
  done
  echo "gpu_sanitize: compute-sanitizer is not in PATH, CUDA_HOME or /usr/local/cuda; it is a part of the CUDA toolkit" >&2
  return 1
}

sanitizer=$(find_sanitizer)
[ "$1" != find ] || { echo "$sanitizer"; exit; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for tool in memcheck racecheck; do
  "$sanitizer" --tool "$tool" --error-exitcode 9 "$@" --gtest_color=no >"$log" 2>&1 || {
    code=$?
    cat "$log"
    echo "gpu_sanitize: $tool of $(basename "$1") ended with $code" >&2
    exit 1
  }
  # A few tests of the program need no device, and pass without one.
  if ! grep -qE '^\[       OK \] Gpu/' "$log"; then
    cat "$log"
    echo "gpu_sanitize: no test ran under $tool: is there a GPU?" >&2
    exit 1
  fi
  echo "$tool: $(grep -E '^\[  PASSED  \]' "$log" | sed 's/^\[  PASSED  \] //; s/\.$//') passed; $(grep -E '^========= (ERROR|RACECHECK) SUMMARY' "$log" | tail -1 | sed 's/^=* *//')"
done
