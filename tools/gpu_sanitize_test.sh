#!/usr/bin/env bash
# gpu_sanitize.sh against a compute-sanitizer of ours: both tools are asked, a finding fails it, and so does a machine on
# which every test is skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/compute-sanitizer" <<'FAKE'
#!/usr/bin/env bash
echo "$2" >>"$ASKED"
[ "$2" != "$FINDS" ] || { echo "========= ERROR SUMMARY: 1 error"; exit 9; }
[ "$PASSES" = 3 ] || echo "[       OK ] Gpu/Kernels.Run/cuda (1 ms)"
echo "[  PASSED  ] $PASSES tests."
echo "========= ERROR SUMMARY: 0 errors"
FAKE
chmod +x "$folder/compute-sanitizer"

# expect CODE TEXT FINDS PASSES
expect() {
  local code=0
  ASKED="$folder/asked" FINDS=$3 PASSES=$4 PATH="$folder:$PATH" "$here/gpu_sanitize.sh" a_test >"$folder/out" 2>&1 || code=$?
  if [ "$code" != "$1" ] || ! grep -q "$2" "$folder/out"; then
    echo "gpu_sanitize_test: expected $1 and '$2' with a finding of '$3' and $4 tests, got $code:"
    cat "$folder/out"
    exit 1
  fi
}

expect 0 'racecheck: 5 tests passed; ERROR SUMMARY: 0 errors' none 5
[ "$(tr '\n' ' ' <"$folder/asked")" = "memcheck racecheck " ] || { echo "asked for: $(cat "$folder/asked")"; exit 1; }
expect 1 'memcheck of a_test ended with 9' memcheck 5
expect 1 'racecheck of a_test ended with 9' racecheck 5
expect 1 'no test ran under memcheck' none 3 # those that need no device
[ "$(PATH="$folder:$PATH" "$here/gpu_sanitize.sh" find)" = "$folder/compute-sanitizer" ] || { echo "not found in PATH"; exit 1; }
