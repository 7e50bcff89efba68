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
"$python" tools/check_parity.py
"$python" tools/check_headers.py "$build"

mapfile -t sources < <("$python" - "$build" <<'EOF'
import json, os, sys
root = os.getcwd() + "/"
names = {e["file"] for e in json.load(open(sys.argv[1] + "/compile_commands.json"))}
print("\n".join(sorted(n[len(root):] for n in names if n.startswith(root) and not n.startswith(root + "build/"))))
EOF
)
start=$SECONDS
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 "$tools/clang-tidy" -p "$build" --quiet 2>build/clang-tidy.err ||
  { grep -v "warnings generated\|Suppressed\|Use -header-filter" build/clang-tidy.err || true; exit 1; }
echo "clang-tidy: ${#sources[@]} files in $((SECONDS - start)) s"
