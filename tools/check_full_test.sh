#!/usr/bin/env bash
# When check_full.sh repeats a step that passed: in a small repository, with one step and a `make` that counts.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/tree/tools"
cd "$work/tree"
cp "$here/timed_steps.sh" tools/
sed 's/^all=(.*)$/all=(asan)/' "$here/check_full.sh" >tools/check_full.sh
grep -qx 'all=(asan)' tools/check_full.sh
printf '#!/bin/sh\necho >>"%s"\n' "$work/count" >"$work/bin/make"
chmod +x tools/check_full.sh "$work/bin/make"
echo build >.gitignore
echo a >tracked
git() { env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE git -c user.name=x -c user.email=x@x "$@"; }
git init -q .
git add .
git commit -qm x

# expect RUNS WHEN
expect() {
  env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE PATH="$work/bin:$PATH" tools/check_full.sh >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
  [ "$(wc -l <"$work/count")" = "$1" ] || { echo "check_full_test: $(wc -l <"$work/count") runs $2, $1 expected"; exit 1; }
}

expect 1 "the first time"
expect 1 "of the same tree"
echo b >tracked
expect 2 "after a change"
echo a >untracked
expect 3 "with another file"
expect 3 "of the same tree with it"
echo b >untracked
expect 4 "after a change of a file that git does not track"
ln -s nowhere link
expect 5 "with a link that leads nowhere"
mkdir -p build && echo c >build/ignored
expect 5 "with a file that git ignores"
