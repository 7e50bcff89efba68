#!/usr/bin/env bash
# Makes sure that the system packages of packages_debian.txt are installed.
# As root (or with sudo that asks no password) it installs what is missing; otherwise it prints the one line to run.
# With KPT_PYTHON set it installs nothing: the machine is taken as it is, and CMake names what it misses.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

[ -n "${KPT_PYTHON:-}" ] && exit 0
mapfile -t packages <"$here/packages_debian.txt"

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no Debian package manager here; these (by their Debian names) must be installed: ${packages[*]}" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo=(sudo env DEBIAN_FRONTEND=noninteractive)
  else
    echo "setup: these packages are missing and this user may not install them. Run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi
echo "setup: installing ${#missing[@]} system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
