#!/usr/bin/env bash
# What `make gpu-test` and quickstart.sh end with, with stand-ins for the set-up, the build and kpt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "front_door_test: $1" >&2; exit 1; }

mkdir -p "$work/bin" "$work/tools"
stand_in() { mkdir -p "$(dirname "$work/$1")" && { echo '#!/usr/bin/env bash'; cat; } >"$work/$1" && chmod +x "$work/$1"; }
cp "$here/../Makefile" "$work/"
cp "$here/quickstart.sh" "$here/timed_steps.sh" "$work/tools/"
for name in bin/cmake bin/ctest tools/setup_packages.sh; do stand_in $name <<<''; done
stand_in tools/setup_python.sh <<<"echo '$work/bin/python'"

# A build whose doctor prints a line and ends with a code.
doctor() { stand_in "$1/bin/kpt" <<<"[ \"\$1\" != doctor ] || { echo '$2'; exit $3; }"; }

# expect CODE LINE DOCTORS_CODE: of make gpu-test.
expect() {
  local code=0
  doctor build/cuda-release "$2" "$3"
  (cd "$work" && env -u MAKEFLAGS -u KPT_TORCH_VERSION PATH="$work/bin:$PATH" make gpu-test) >"$work/out" 2>&1 || code=$?
  [ "$code" = "$1" ] || fail "gpu-test with '$2' and a doctor that ends with $3 ended with $code: $(cat "$work/out")"
}
expect 0 '            pass  cuda:0 float32      matrix product 122x35x154 against fp64' 0
expect 2 '            pass  cuda:0 float32      matrix product 122x35x154 against fp64' 1
expect 2 '            FAIL  cuda:0 float32      matrix product 122x35x154 against fp64' 1
expect 2 '            FAIL  cuda:0 float32      matrix product 122x35x154 against fp64' 0
expect 2 '            pass  cpu float32         matrix product 122x35x154 against fp64' 0

stand_in bin/make <<<''
stand_in bin/python <<<'case ${2:-} in export | tokens) touch "$3" ;; esac'
doctor build/cpu-release ready 0
(cd "$work" && PATH="$work/bin:$PATH" tools/quickstart.sh cpu-release build/cpu-release) >"$work/out" 2>&1 || fail "$(cat "$work/out")"
[ "$(tail -n 1 "$work/out")" = "The program is build/cpu-release/bin/kpt; the models are in build/cpu-release/quickstart/." ] ||
  fail "quickstart's last line is: $(tail -n 1 "$work/out")"
[ -f "$work/build/cpu-release/quickstart/minilm.pt2" ] || fail "there is no quickstart/minilm.pt2"
