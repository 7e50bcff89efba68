#!/usr/bin/env bash
# What `make bench` runs once everything is built; all of it, then the names of what failed.
#   run_all.sh BUILD_FOLDER PYTHON SIZE NAME…     SIZE: small or full; NAME: models of the test set, as chosen_models.py
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 python=$2 size=$3
shift 3
models=build/bench_models_$size
failed=()

step() {
  local name=$1
  shift
  printf '\n== %s\n' "$name"
  "$@" || failed+=("$name")
}

# Of what the export step left: a filter that matches nothing would be a success.
check_accuracy() {
  local filter
  filter=$("$python" benchmarks/chosen_models.py "$models" "$@") || return
  "$build/test_bin/kpt_models_test" "$models" "--gtest_filter=$filter"
}

step "foundation" "$build/bin/kpt_benchmarks" --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
step "chain of tiny operations" "$python" benchmarks/tiny_chain.py --work build/bench --build "$build"
load=()
[ "$size" = full ] || load=(--megabytes 64 --repeats 3)
step "loading" "$python" benchmarks/load_model.py --work build/bench --build "$build" "${load[@]}"
step "export" "$python" tests/models/export_models.py --out "$models" --size "$size" --reuse --only "$@"
# A fast answer counts only where it is right.
step "accuracy" check_accuracy "$@"
step "models" "$python" benchmarks/compare_models.py --models "$models" --ours "$build/bin/kpt_serve_models" --only "$@"

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nbench: failed:'
  printf ' %s;' "${failed[@]}"
  echo
  exit 1
fi
