#!/usr/bin/env bash
# Compiles models for TPUs that are not here, with Google's own compiler, and prints what it says as a table.
#   tpu_aot.sh setup               packages and libtpu; prints the path of libtpu.so
#   tpu_aot.sh BUILD MODEL.pt2…    the tests that need libtpu, then these models
#   tpu_aot.sh BUILD               the tests, then models of the test set (make tpu-aot)
#
#   TPU_AOT_TARGETS       for which targets: all generations
#   TPU_AOT_MODELS        patterns of names in small sizes: *_static, all that have fixed sizes; empty: none
#   TPU_AOT_FULL_MODELS   the same in full sizes: bert_fp32_static vit_fp32_static llama_bf16_static (BERT-base, ViT-B,
#                         Llama of 1B parameters); minutes each, hours under emulation; empty: none
#   TPU_AOT_LIBTPU        version of libtpu
#
# libtpu exists for x86_64 only. On other processors it runs through user-mode emulation, which takes four packages, two
# of them of the architecture amd64; as root (or with sudo that asks no password) they are installed, otherwise the line
# to run is printed. libtpu itself (0.6 GB unpacked, its own licence) lands in the user's cache folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=${TPU_AOT_LIBTPU:-0.0.51}
targets=${TPU_AOT_TARGETS:-tpu:v4 tpu:v5e tpu:v5p tpu:v6e tpu:v7}

setup_packages() {
  [ "$(uname -m)" = x86_64 ] && return 0
  local packages=(qemu-user-static g++-x86-64-linux-gnu libc6:amd64 libstdc++6:amd64) missing=()
  if ! command -v dpkg-query >/dev/null; then
    echo "tpu-aot: no Debian package manager here; these (by their Debian names) are needed: ${packages[*]}" >&2
    return 1
  fi
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) == "install ok installed" ]] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local line="dpkg --add-architecture amd64 && apt-get update -qq && apt-get install -y -qq --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -eq 0 ]; then
    echo "tpu-aot: installing ${missing[*]}" >&2
    DEBIAN_FRONTEND=noninteractive bash -c "$line" >/dev/null
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "tpu-aot: installing ${missing[*]}" >&2
    sudo env DEBIAN_FRONTEND=noninteractive bash -c "$line" >/dev/null
  else
    printf 'tpu-aot: these packages are missing and this user may not install them. Run:\n  sudo sh -c "%s"\n' "$line" >&2
    return 1
  fi
}

# Prints the path of libtpu.so.
setup_libtpu() {
  local folder="${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/kpt/libtpu/$version"
  if [ ! -e "$folder/.ready" ]; then
    mkdir -p "$(dirname "$folder")"
    exec 9>"$folder.lock"
    flock 9 # two clones that start together get it once
    if [ ! -e "$folder/.ready" ]; then
      echo "tpu-aot: getting libtpu $version (0.6 GB in $folder)" >&2
      rm -rf "$folder" && mkdir -p "$folder/wheel"
      local python
      python=$("$here/setup_python.sh")
      "$python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
        --platform manylinux_2_31_x86_64 --dest "$folder/wheel" "libtpu==$version" >&2
      "$python" -m zipfile -e "$folder"/wheel/libtpu-*.whl "$folder"
      rm -rf "$folder/wheel"
      touch "$folder/.ready"
    fi
  fi
  echo "$folder/libtpu/libtpu.so"
}

# Every model for every target, as a table; goes on after a refusal, and then gives 1.
compile_models() {
  local failed=0 model target json complaints
  complaints=$(mktemp)
  echo "| model | target | code | arguments | outputs | temporaries | peak | GFLOP | MB moved | compiler's µs | ours µs | compiled in s |"
  echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
  for model in "$@"; do
    for target in $targets; do
      if json=$("$build/bin/kpt" compile "$model" --target "$target" --no-cache --json 2>"$complaints"); then
        "$(command -v python3)" -c '
import json, sys
model, outcome = sys.argv[1], json.loads(sys.argv[2])
text = outcome["targets"][0]
f, e = text["figures"], text["estimates"]
kib = lambda n: "–" if n is None else f"{n / 1024:,.0f} KiB"
number = lambda n, scale, form: "–" if n is None else format(n * scale, form)
print("|", " | ".join([model, text["target"], kib(f["code_bytes"]), kib(f["argument_bytes"]), kib(f["output_bytes"]),
      kib(f["temporary_bytes"]), kib(f["peak_bytes"]), number(f["flops"], 1e-9, ".4g"),
      number(f["bytes_accessed"], 1e-6, ".4g"), number(e["compiler_seconds"], 1e6, ".4g"),
      number(e["published_rates_seconds"], 1e6, ".4g"), format(outcome["seconds"], ".0f")]), "|")' \
          "$(basename "$model" .pt2)" "$json" || failed=1 # callers switch errexit off
      else
        json+=$(<"$complaints")
        echo "| $(basename "$model" .pt2) | $target | refused: ${json//|/\\|} |"
        failed=1
      fi
    done
  done
  rm -f "$complaints"
  return $failed
}

# Models of the test set in a size, by patterns of their names: exported where they are not there yet, then compiled.
compile_zoo() {
  local size=$1 folder="$here/../build/tpu_models_$1" python pattern models=()
  shift
  python=$("$here/setup_python.sh") || return 1
  "$python" "$here/../tests/models/export_models.py" --out "$folder" --size "$size" --reuse --only "$@" >&2 || return 1
  for pattern in "$@"; do
    mapfile -t -O ${#models[@]} models < <(compgen -G "$folder/$pattern.pt2")
  done
  [ ${#models[@]} -gt 0 ] || { echo "tpu-aot: no model of the test set is called $*" >&2; return 1; }
  printf '\nModels of the test set, %s sizes:\n\n' "$size"
  compile_models "${models[@]}"
}

setup_packages
library=$(setup_libtpu)
if [ "${1:-}" = setup ]; then
  echo "$library"
  exit 0
fi
[ $# -ge 1 ] || { sed -n 's/^# \{0,1\}//;2,11p' "$0" >&2; exit 2; }
build=$1
shift
export TPU_LIBRARY_PATH=$library

"$build/test_bin/kpt_engines_xla_test" --gtest_filter='TopologyProcess.TheRealCompiler*' --gtest_brief=1
if [ $# -gt 0 ]; then
  compile_models "$@"
  exit
fi
failed=0
set -f # patterns are for the folders of models
read -ra small <<<"${TPU_AOT_MODELS-*_static}"
read -ra full <<<"${TPU_AOT_FULL_MODELS-bert_fp32_static vit_fp32_static llama_bf16_static}"
set +f
[ ${#small[@]} -eq 0 ] || compile_zoo small "${small[@]}" || failed=1
# These take minutes each, and hours under emulation.
export KPT_TPU_COMPILE_TIMEOUT_MS=${KPT_TPU_COMPILE_TIMEOUT_MS:-28800000}
[ ${#full[@]} -eq 0 ] || compile_zoo full "${full[@]}" || failed=1
exit $failed
