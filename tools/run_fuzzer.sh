#!/usr/bin/env bash
# Runs one libFuzzer program for KPT_FUZZ_SECONDS (20) on its seeds and on what earlier runs found worth keeping.
#   run_fuzzer.sh PROGRAM SEED_FOLDER
# The corpus stays in $XDG_CACHE_HOME/kpt/fuzz/<program> (or below KPT_FUZZ_CORPUS) for all clones; one that has grown
# beyond KPT_FUZZ_CORPUS_KB (16384) is reduced to what covers as much. A finding is kept beside the program.
set -euo pipefail
program=$1 seeds=$2
base=${KPT_FUZZ_CORPUS:-${XDG_CACHE_HOME:-${HOME:?set HOME, XDG_CACHE_HOME or KPT_FUZZ_CORPUS}/.cache}/kpt/fuzz}
corpus=$base/$(basename "$program")
most_kb=${KPT_FUZZ_CORPUS_KB:-16384}
limits=(-timeout=10 -rss_limit_mb=2048)
mkdir -p "$base"

size_kb() { du -sk --apparent-size "$corpus" | cut -f1; }

# Replaces the corpus by the smallest set that libFuzzer finds to cover as much, and by the smallest files of that where
# it is still too large. A failure leaves the corpus as it is; each step says so itself, since a function that is asked
# for its status runs without set -e.
reduce() {
  rm -rf "$corpus.less" && mkdir "$corpus.less" || return
  "$program" -merge=1 "${limits[@]}" "$corpus.less" "$seeds" "$corpus" >"$program.merge.log" 2>&1 || return
  find "$corpus.less" -type f -printf '%s %p\n' | sort -n |
    awk -v most=$((most_kb * 1024)) '{ sum += $1; if (sum > most) { sub(/^[0-9]+ /, ""); printf "%s%c", $0, 0 } }' |
    xargs -0 -r rm -f || return
  mv -T "$corpus" "$corpus.old" && mv -T "$corpus.less" "$corpus" || return
  rm -rf "$corpus.old"
}

exec 9>"$corpus.lock"
if flock -n 9; then # otherwise another clone is at work on it, and it waits
  # What a run that was killed between the two moves left.
  [ -e "$corpus" ] || [ ! -e "$corpus.old" ] || mv -T "$corpus.old" "$corpus"
  rm -rf "$corpus.old"
  mkdir -p "$corpus"
  if [ "$(size_kb)" -gt "$most_kb" ] && ! reduce; then
    cat "$program.merge.log"
    exit 1
  fi
fi
flock -s 9 # several clones may add to it at once
mkdir -p "$corpus"
before=$(find "$corpus" -type f | wc -l)
if ! "$program" -max_total_time="${KPT_FUZZ_SECONDS:-20}" "${limits[@]}" -print_final_stats=1 \
  -artifact_prefix="$program." "$corpus" "$seeds" >"$program.log" 2>&1; then
  cat "$program.log"
  exit 1
fi
tail -n 12 "$program.log"
echo "corpus: $before inputs before, $(find "$corpus" -type f | wc -l) after, $(size_kb) kB in $corpus"
