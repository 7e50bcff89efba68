#!/usr/bin/env bash
# What to run first on a machine with an AMD GPU, from the runtime to whole models.   amd_test.sh BUILD PYTHON
# Ends at the first thing that does not hold or was skipped. No machine with an AMD GPU has run it yet.
set -euo pipefail
build=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/timed_steps.sh"

has_gpu() {
  "$build/bin/kpt" doctor --category amd
  "$build/bin/kpt" doctor --category amd --json | "$python" -c '
import json, sys
lines = json.load(sys.stdin)["diagnostics"]
sys.exit(0 if any(line["details"].get("gpus") for line in lines) else "amd-test: this machine has no AMD GPU that can be used")'
}
# The gfx targets of the GPUs, with commas between them.
gpu_targets() {
  "$build/bin/kpt" doctor --category amd --json | "$python" -c '
import json, sys
gpus = [gpu for line in json.load(sys.stdin)["diagnostics"] for gpu in line["details"].get("gpus", [])]
print(",".join(sorted({gpu["gfx_target"] for gpu in gpus} - {""})))'
}
# Kernels are compiled for what they will run on, unless KPT_AMD_TARGETS names other targets.
own_tests() {
  local targets=${KPT_AMD_TARGETS:-}
  [ -n "$targets" ] || targets=$(gpu_targets) || targets=
  if [ -n "$targets" ]; then
    echo "amd-test: kernels are compiled for $targets"
  else
    echo "amd-test: no GPU tells its gfx target; kernels are compiled for the four targets of CI"
  fi
  KPT_AMD_TARGETS=$targets "$build/test_bin/kpt_backends_amd_test" \
    --gtest_filter='HipLibrary*:*AmdKernels*:*AmdMatrixKernels*' | tee "$build/amd_test.log"
  if grep -q SKIPPED "$build/amd_test.log"; then
    echo "amd-test: kernels were not looked at, such as for want of a compiler for the GPU (clang-22 and lld-22, or ROCm's): \
see $build/amd_test.log" >&2
    return 1
  fi
}
export_models() {
  "$python" "$here/../tests/models/export_models.py" --out "$build/amd_test_models" --size small --reuse \
    --only 'bert_*_static' 'gpt2_*_static' 'llama_fp32_static' 'llama_bf16_static' 'vit_*_static' 'minilm_fp32_*'
}
validate_models() {
  local model
  for model in "$build"/amd_test_models/*.pt2; do
    echo "--- $(basename "$model")"
    "$build/bin/kpt" validate "$model" --devices cpu,amd:0
  done
}
levels() {
  local level
  for level in conservative balanced aggressive; do
    "$build/bin/kpt" optimize "$build/amd_test_models/bert_fp32_static.pt2" --device amd:0 --level "$level" \
      -o "$build/amd_test_models/bert_$level.kpt"
  done
}
profile() { "$build/bin/kpt" profile "$build/amd_test_models/bert_fp32_static.pt2" --device amd:0; }

step "GPU" has_gpu
step "runtime and kernels" own_tests
step "export" export_models
step "models against the CPU and fp64" validate_models
step "levels" levels
step "profile" profile
