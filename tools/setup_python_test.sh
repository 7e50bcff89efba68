#!/usr/bin/env bash
# What setup_python.sh refuses, and that it says what mends it. Nothing is installed: each case ends before that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect TEXT VARIABLE=VALUE…
expect() {
  local code=0
  env -u KPT_PYTHON -u KPT_TORCH_VERSION XDG_CACHE_HOME="$work" "${@:2}" "$BASH" "$here/setup_python.sh" \
    >"$work/out" 2>"$work/err" || code=$?
  if [ $code != 1 ] || [ -s "$work/out" ] || ! grep -qF -- "$1" "$work/err" || [ "$(wc -l <"$work/err")" != 1 ]; then
    echo "setup_python_test: ${*:2}: expected 1 and '$1', got $code: $(cat "$work/out" "$work/err")" >&2
    exit 1
  fi
}

expect 'is no program; set it to a Python interpreter, or unset it' KPT_PYTHON=/no/such/python
expect 'lacks the patch number; write 2.11.0' KPT_TORCH_VERSION=2.11
for version in 2.10.0 2.16.0 2.11.x 2.11.0+cpu 3 2.1; do
  expect "$version is outside 2.11.0 to 2.15; set one of these, or unset it" KPT_TORCH_VERSION=$version
done
mkdir "$work/bin"
ln -s "$(command -v dirname)" "$work/bin/"
expect 'python3 is missing; install it (apt-get install python3 python3-venv), or set KPT_PYTHON' PATH="$work/bin"
