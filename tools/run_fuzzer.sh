#!/usr/bin/env bash
# Runs one libFuzzer program for KPT_FUZZ_SECONDS (20) on a copy of its seeds; a finding is kept beside the program.
#   run_fuzzer.sh PROGRAM SEED_FOLDER
set -euo pipefail
program=$1 seeds=$2
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
if ! "$program" -max_total_time="${KPT_FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$program." "$corpus" "$seeds" >"$program.log" 2>&1; then
  cat "$program.log"
  exit 1
fi
tail -n 12 "$program.log"
