#!/usr/bin/env bash
# The module with every lowering, compiled for two generations of TPUs by the real libtpu.   tpu_check.sh BUILD
# Being skipped is a failure here.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: tpu_check.sh BUILD" >&2; exit 2; }
TPU_LIBRARY_PATH=$("$(dirname "$0")/tpu_aot.sh" setup)
export TPU_LIBRARY_PATH
outcome=$("$1/test_bin/kpt_every_lowering_test" --gtest_filter='EveryLowering.Stands*:*ForTpus*' | tee -a /dev/stderr)
if grep -q SKIPPED <<<"$outcome" || ! grep -q "PASSED  \] 3 tests" <<<"$outcome"; then
  echo "tpu-check: the compiler was not asked" >&2
  exit 1
fi
