#!/usr/bin/env bash
# Runs one libFuzzer program for KPT_FUZZ_SECONDS (20) on a copy of its seeds; a finding is kept beside the program.
#   run_fuzzer.sh PROGRAM SEED_FOLDER
set -euo pipefail
program=$1 seeds=$2
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
"$program" -max_total_time="${KPT_FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$program." "$corpus" "$seeds" 2>&1 | tail -n 25
