#!/usr/bin/env bash
# Prints the Python interpreter whose environment holds libtorch and the lint tools, making the environment if needed.
#
#   KPT_PYTHON=…          that interpreter, nothing is installed
#   otherwise             $XDG_CACHE_HOME/kpt/python/<hash>/bin/python, made once from requirements.txt and shared by
#                         all clones (the hash covers the list, the torch version, the Python version and the machine)
#   KPT_TORCH_VERSION=…   another torch than the pinned one (2.11.0 to 2.15.0)
#
# Progress goes to standard error, the path alone to standard output.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "${KPT_PYTHON:-}" ]; then
  found=$(command -v "$KPT_PYTHON") || { echo "setup: KPT_PYTHON=$KPT_PYTHON is no program; set it to a Python interpreter, or unset it" >&2; exit 1; }
  case $found in /*) ;; *) found=$PWD/$found ;; esac
  if [ -n "${KPT_TORCH_VERSION:-}" ] && ! "$found" "$here/find_torch.py" | grep -q "\"version\": \"$KPT_TORCH_VERSION[+\"]"; then
    echo "setup: $found has not torch $KPT_TORCH_VERSION; unset KPT_TORCH_VERSION or KPT_PYTHON" >&2
    exit 1
  fi
  echo "$found"
  exit 0
fi
base_python=$(command -v python3) ||
  { echo "setup: python3 is missing; install it (apt-get install python3 python3-venv), or set KPT_PYTHON" >&2; exit 1; }
list=$(grep -v '^#' "$here/requirements.txt")
if [ -n "${KPT_TORCH_VERSION:-}" ]; then
  if [[ $KPT_TORCH_VERSION =~ ^2\.1[1-5]$ ]]; then
    echo "setup: KPT_TORCH_VERSION=$KPT_TORCH_VERSION lacks the patch number; write $KPT_TORCH_VERSION.0" >&2
    exit 1
  elif [[ ! $KPT_TORCH_VERSION =~ ^2\.1[1-5]\.[0-9]+$ ]]; then
    echo "setup: KPT_TORCH_VERSION=$KPT_TORCH_VERSION is outside 2.11.0 to 2.15; set one of these, or unset it" >&2
    exit 1
  fi
  list=$(sed "s/^torch==.*/torch==$KPT_TORCH_VERSION/" <<<"$list")
fi
hash=$({ echo "$list"; "$base_python" -VV; uname -m; } | sha256sum | cut -c1-12)
folder="${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/kpt/python/$hash"
if [ -e "$folder/.ready" ]; then
  echo "$folder/bin/python"
  exit 0
fi

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9 # two clones that start together make it once
if [ ! -e "$folder/.ready" ]; then
  echo "setup: making the Python environment $folder (about 5 GB with torch; once for all clones)" >&2
  rm -rf "$folder"
  "$base_python" -m venv "$folder" >&2
  quiet=()
  [ -t 2 ] || quiet=(--quiet --progress-bar off)
  xargs "$folder/bin/python" -m pip install --disable-pip-version-check --no-input "${quiet[@]}" \
    < <(grep -v -- '--no-deps$' <<<"$list") 1>&2
  xargs -r "$folder/bin/python" -m pip install --disable-pip-version-check --no-input "${quiet[@]}" --no-deps \
    < <(sed -n 's/ *--no-deps$//p' <<<"$list") 1>&2
  touch "$folder/.ready"
fi
echo "$folder/bin/python"
