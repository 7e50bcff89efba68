#!/usr/bin/env bash
# Prints the Python interpreter whose environment holds the runtimes of requirements_peers.txt, making it if needed:
# $XDG_CACHE_HOME/kpt/peers/<hash>/bin/python. It sees the packages of the main environment (tools/setup_python.sh), so
# that all runtimes meet the same torch and torch lies on the disk once; the main environment itself is not changed.
#
# Progress goes to standard error, the path alone to standard output.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
main_python=$("$here/setup_python.sh")
packages=$("$main_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
list=$(grep -v '^#' "$here/requirements_peers.txt")
hash=$({ echo "$list"; echo "$packages"; "$main_python" -VV; uname -m; } | sha256sum | cut -c1-12)
folder="${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/kpt/peers/$hash"
if [ -e "$folder/.ready" ]; then
  echo "$folder/bin/python"
  exit 0
fi

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9 # two clones that start together make it once
if [ ! -e "$folder/.ready" ]; then
  echo "setup: making the environment of the other runtimes, $folder (about 0.4 GB)" >&2
  rm -rf "$folder"
  "$main_python" -m venv "$folder" >&2
  own=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$packages" > "$own/main_environment.pth"
  quiet=()
  [ -t 2 ] || quiet=(--quiet --progress-bar off)
  install() { "$folder/bin/python" -m pip install --disable-pip-version-check --no-input "${quiet[@]}" "$@" 1>&2; }
  mapfile -t needed < <(grep -v -- '--optional$' <<<"$list")
  install "${needed[@]}"
  while read -r package; do
    install "$package" || echo "setup: $package does not install here; compare.py goes on without it" >&2
  done < <(sed -n 's/ *--optional$//p' <<<"$list")
  touch "$folder/.ready"
fi
echo "$folder/bin/python"
