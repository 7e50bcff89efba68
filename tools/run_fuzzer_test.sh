#!/usr/bin/env bash
# Tests of run_fuzzer.sh with a program that pretends to fuzz: it adds one input of 600 kB in each run, and keeps one of
# its inputs when it merges.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "run_fuzzer_test: $1" >&2; exit 1; }

mkdir "$work/seeds"
echo seed >"$work/seeds/one"
cat >"$work/pretend_fuzz" <<'PROGRAM'
#!/usr/bin/env bash
folders=()
merge=
for word in "$@"; do
  case $word in -merge=1) merge=1 ;; -*) ;; *) folders+=("$word") ;; esac
done
[ -e "${folders[-1]}/one" ] || [ -n "$merge" ] || { echo "no seeds"; exit 1; }
if [ -n "$merge" ]; then
  [ ! -e "$(dirname "$0")/stuck" ] || { echo "out of memory"; exit 1; }
  [ -e "${folders[1]}/one" ] || { echo "no seeds"; exit 1; }
  cp "$(find "${folders[2]}" -type f | sort | head -n 1)" "${folders[0]}/"
  exit 0
fi
[ ! -e "$(dirname "$0")/broken" ] || { echo "a finding"; exit 77; }
head -c 600000 /dev/zero >"${folders[0]}/input_$(find "${folders[0]}" -type f | wc -l)"
PROGRAM
chmod +x "$work/pretend_fuzz"

run() { KPT_FUZZ_CORPUS=$work/cache KPT_FUZZ_CORPUS_KB=1500 "$here/run_fuzzer.sh" "$work/pretend_fuzz" "$work/seeds"; }
count() { find "$work/cache/pretend_fuzz" -type f | wc -l; }

run >/dev/null
run >/dev/null
[ "$(count)" -eq 2 ] || fail "the second run did not build on the first: $(count) inputs"
touch "$work/broken"
if text=$(run); then fail "a finding is no success"; fi
grep -q "a finding" <<<"$text" || fail "the finding's log is missing"
[ "$(count)" -eq 2 ] || fail "a finding cost the corpus"
rm "$work/broken"
run >/dev/null # 1800 kB now
touch "$work/stuck"
if text=$(run); then fail "a merge that fails is no success"; fi
grep -q "out of memory" <<<"$text" || fail "the log of the merge is missing"
[ "$(count)" -eq 3 ] || fail "a merge that failed changed the corpus: $(count) inputs"
rm "$work/stuck"
mv "$work/cache/pretend_fuzz" "$work/cache/pretend_fuzz.old" # as a run leaves it that is killed in the middle
run >/dev/null # reduced to one, then one more
[ "$(count)" -eq 2 ] || fail "a corpus beyond its bound was not reduced: $(count) inputs"
[ -e "$work/seeds/one" ] || fail "seeds were touched"
echo "run_fuzzer_test: passed"
