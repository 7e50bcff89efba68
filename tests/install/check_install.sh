#!/usr/bin/env bash
# Installs the build into a fresh folder, moves that folder, builds the examples against it and runs everything
# from there: find_package, exported target, version file, helper program and relocatability in one go.
#   check_install.sh BUILD_FOLDER SOURCE_FOLDER [FOLDER_OF_THE_PACKAGE_TORCH]
set -euo pipefail
build=$1 source=$2 torch=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"

# build_example NAME [CMAKE ARGUMENTS]: the program is $work/NAME/NAME.
build_example() {
  cmake -S "$source/examples/$1" -B "$work/$1" -DCMAKE_PREFIX_PATH="$work/moved" "${@:2}" >"$work/log" 2>&1 &&
    cmake --build "$work/$1" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

build_example list_devices

listing=$("$work/list_devices/list_devices")
echo "$listing"
grep -q '^KernelPyTorch ' <<<"$listing"
grep -q '^cpu  ' <<<"$listing"

# Figures of a device: the processor has no load to tell, which is no failure.
if grep -q '^cpu  .*  usable$' <<<"$listing"; then "$work/list_devices/list_devices" cpu >/dev/null; fi

# A device that no machine has: the exact exception type must cross the library's border.
if "$work/list_devices/list_devices" nvidia:9999 2>"$work/error"; then
  echo "nvidia:9999 was accepted" >&2
  exit 1
fi
grep -q '^no CUDA: nvidia:9999 cannot be used: ' "$work/error" || { cat "$work/error"; exit 1; }

# An older minor version must be refused by the version file.
sed 's/KernelPyTorch 0.5/KernelPyTorch 0.4/' "$source/examples/list_devices/CMakeLists.txt" >"$work/CMakeLists.txt"
cp "$source/examples/list_devices/main.cpp" "$work/"
if cmake -S "$work" -B "$work/old" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1; then
  echo "a request for 0.4 was satisfied by this version" >&2
  exit 1
fi

# libtorch is opened at run time, after a version check: nothing may ask the loader for it.
readelf --version >/dev/null
for file in "$work/moved/bin/kpt" "$work/moved"/lib/lib*.so*; do
  [ -f "$file" ] || continue
  if readelf -d "$file" | grep -E 'NEEDED.*lib(torch|c10)'; then
    echo "$file links libtorch" >&2
    exit 1
  fi
done

"$work/moved/bin/kpt" --version
"$work/moved/bin/kpt" doctor --category cpu
# The engine module must open from its new place, where this build has one.
if compgen -G "$work/moved/lib/kpt/kpt_aten_*.so" >/dev/null; then
  "$work/moved/bin/kpt" doctor --category libtorch
  grep -q '^cpu  .*  usable$' <<<"$listing"
  # A model in a program that knows nothing but the installed headers and library.
  build_example cpp_embed
  answers=$("$work/cpp_embed/cpp_embed" "$source/tests/golden/pt2/2.15.0/linear_state.pt2")
  echo "$answers"
  grep -q '^y' <<<"$answers"
  grep -q '^scaled' <<<"$answers"
  # And in one that has libtorch's tensors.
  build_example torch_tensors -DTORCH_DIR="${torch:?}"
  "$work/torch_tensors/torch_tensors" "$source/tests/golden/pt2/2.15.0/linear_state.pt2"
fi
echo "install tree: fine"
