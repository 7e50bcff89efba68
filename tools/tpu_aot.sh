#!/usr/bin/env bash
# Compiles models for TPUs that are not here, with Google's own compiler, and prints what it says as a table.
#   tpu_aot.sh setup               packages and libtpu; prints the path of libtpu.so
#   tpu_aot.sh BUILD MODEL.pt2…    the tests that need libtpu, then every model for every target of TPU_AOT_TARGETS
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

setup_packages
library=$(setup_libtpu)
if [ "${1:-}" = setup ]; then
  echo "$library"
  exit 0
fi
[ $# -ge 2 ] || { sed -n 's/^# \{0,1\}//;2,4p' "$0" >&2; exit 2; }
build=$1
shift
export TPU_LIBRARY_PATH=$library

"$build/test_bin/kpt_engines_xla_test" --gtest_filter='TopologyProcess.TheRealCompiler*' --gtest_brief=1
failed=0
echo "| model | target | code | arguments | outputs | temporaries | GFLOP | MB moved | compiler's µs | ours µs | compiled in s |"
echo "|---|---|---|---|---|---|---|---|---|---|---|"
for model in "$@"; do
  for target in $targets; do
    if json=$("$build/bin/kpt" compile "$model" --target "$target" --no-cache --json 2>&1); then
      "$(command -v python3)" -c '
import json, sys
model, outcome = sys.argv[1], json.loads(sys.argv[2])
text = outcome["targets"][0]
f, e = text["figures"], text["estimates"]
kib = lambda n: "–" if n is None else f"{n / 1024:,.0f} KiB"
number = lambda n, scale, form: "–" if n is None else format(n * scale, form)
print("|", " | ".join([model, text["target"], kib(f["code_bytes"]), kib(f["argument_bytes"]), kib(f["output_bytes"]),
      kib(f["temporary_bytes"]), number(f["flops"], 1e-9, ".4g"), number(f["bytes_accessed"], 1e-6, ".4g"),
      number(e["compiler_seconds"], 1e6, ".4g"), number(e["published_rates_seconds"], 1e6, ".4g"),
      format(outcome["seconds"], ".0f")]), "|")' "$(basename "$model" .pt2)" "$json"
    else
      echo "| $(basename "$model" .pt2) | $target | refused: ${json//|/\\|} |"
      failed=1
    fi
  done
done
exit $failed
