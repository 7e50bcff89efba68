#!/usr/bin/env bash
# amd_test.sh against programs of ours: kernels are compiled for the targets of the GPUs that the doctor sees.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/bin" "$folder/test_bin"
cat >"$folder/bin/kpt" <<'FAKE'
#!/usr/bin/env bash
[ "$*" != "doctor --category amd --json" ] || echo "{\"diagnostics\": [{\"details\": {}}, {\"details\": {\"gpus\": $GPUS}}]}"
FAKE
# It ends the run: what follows needs a GPU. GoogleTest is content with tests that were skipped.
cat >"$folder/test_bin/kpt_backends_amd_test" <<'FAKE'
#!/usr/bin/env bash
echo "targets: '$KPT_AMD_TARGETS', $1"
[ -z "${SKIPPED:-}" ] || { echo "[  SKIPPED ] 1 test, listed below:"; exit 0; }
exit 7
FAKE
chmod +x "$folder/bin/kpt" "$folder/test_bin/kpt_backends_amd_test"

# expect CODE TEXT GPUS
expect() {
  local code=0
  GPUS=$3 "$here/amd_test.sh" "$folder" "$python" >"$folder/out" 2>&1 || code=$?
  if [ "$code" != "$1" ] || ! grep -qF -- "$2" "$folder/out"; then
    echo "amd_test_test: expected $1 and \"$2\" with the GPUs $3, got $code:"
    cat "$folder/out"
    exit 1
  fi
}

unset KPT_AMD_TARGETS
expect 7 "targets: 'gfx90a', --gtest_filter=HipLibrary*:*AmdKernels*:*AmdMatrixKernels*" '[{"gfx_target": "gfx90a"}]'
expect 7 "targets: 'gfx1036,gfx1100'," '[{"gfx_target": "gfx1100"}, {"gfx_target": "gfx1036"}, {"gfx_target": "gfx1100"}]'
expect 7 "no GPU tells its gfx target; kernels are compiled for the four targets of CI" '[{"gfx_target": ""}]'
expect 7 "targets: ''," '[{"gfx_target": ""}]'
expect 1 "this machine has no AMD GPU that can be used" '[]'
SKIPPED=1 expect 1 "kernels were not looked at" '[{"gfx_target": "gfx90a"}]'
export KPT_AMD_TARGETS=gfx942
expect 7 "targets: 'gfx942'," '[{"gfx_target": "gfx90a"}]'
