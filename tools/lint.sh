#!/usr/bin/env bash
# All checks of the source text.   lint.sh BUILD_FOLDER PYTHON
# The cheap ones first; clang-tidy last, on all cores. KPT_LINT_FIX=1 formats instead of complaining.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 python=$2
tools=$(dirname "$python")
[ -x "$tools/clang-format" ] || { echo "lint: clang-format is missing beside $python; run without KPT_PYTHON" >&2; exit 1; }

mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' | while read -r f; do [ -e "$f" ] && echo "$f"; done)
if [ -n "${KPT_LINT_FIX:-}" ]; then
  "$tools/clang-format" -i "${files[@]}"
else
  "$tools/clang-format" --dry-run --Werror "${files[@]}"
fi
echo "format: ${#files[@]} files"
"$python" tools/check_layers.py
"$python" tools/check_sizes.py
"$python" tools/check_options.py
"$python" tools/check_status_codes.py
"$python" tools/check_parity.py
"$python" tools/operator_table.py --check
"$python" tools/check_headers.py "$build"
"$python" tools/run_clang_tidy.py "$build" "$tools/clang-tidy"
