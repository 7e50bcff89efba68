#!/usr/bin/env bash
# Makes sure that the system packages of packages_debian.txt are installed.   setup_packages.sh [--offered] [WISH…]
# As root (or with sudo that asks no password) it installs what is missing; otherwise it prints the one line to run.
# A line with ? at its end is a wish: installed where that is possible and the system has such a package, else left out.
# Arguments are further wishes: of these it says which are left out, and looks once into fresh lists of packages. With
# --offered it fails where the system has such a package and it is not installed in the end, and where apt has no lists of
# packages, so that nobody can tell.
# With KPT_PYTHON set it installs nothing: the machine is taken as it is, and CMake names what it misses.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

offered=no
if [ "${1:-}" = --offered ]; then
  offered=yes
  shift
fi
[ -n "${KPT_PYTHON:-}" ] && exit 0
mapfile -t packages < <(grep -v '?$' "$here/packages_debian.txt")
mapfile -t wishes < <(sed -n 's/?$//p' "$here/packages_debian.txt")

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no Debian package manager here; these (by their Debian names) must be installed: ${packages[*]}" >&2
  [ $# -eq 0 ] || echo "setup: left out, no Debian package manager: $*" >&2
  exit 0
fi
is_missing() {
  [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null || true) != "install ok installed" ]]
}
missing=()
for package in "${packages[@]}"; do
  if is_missing "$package"; then missing+=("$package"); fi
done

may_install=yes
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo=(sudo env DEBIAN_FRONTEND=noninteractive)
  else
    may_install=no
  fi
fi
export DEBIAN_FRONTEND=noninteractive
install() {
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

fresh_lists=no
if [ ${#missing[@]} -gt 0 ]; then
  if [ $may_install = no ]; then
    echo "setup: these packages are missing and this user may not install them. Run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${#missing[@]} system packages: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  fresh_lists=yes
  install "${missing[@]}"
fi

# Of the packages named that are missing: those that apt knows become `wanted`, the others `unknown`.
look_up() {
  local name
  wanted=() unknown=()
  for name in "$@"; do
    if ! is_missing "$name"; then continue; fi
    if [ $may_install = yes ] && apt-cache show "$name" >/dev/null 2>&1; then
      wanted+=("$name")
    else
      unknown+=("$name")
    fi
  done
}
install_wanted() {
  [ ${#wanted[@]} -gt 0 ] || return 0
  echo "setup: installing ${wanted[*]}"
  install "${wanted[@]}" || echo "setup: ${wanted[*]} could not be installed; what needs them is left out" >&2
}
has_lists() {
  [ -n "$(apt-get indextargets --format '$(FILENAME)' 'Created-By: Packages' 2>/dev/null)" ]
}
check_offered() {
  [ $offered = yes ] || return 0
  local name left=() unheard=()
  for name in "$@"; do
    is_missing "$name" || continue
    if apt-cache show "$name" >/dev/null 2>&1; then left+=("$name"); else unheard+=("$name"); fi
  done
  if [ ${#unheard[@]} -gt 0 ] && ! has_lists; then
    echo "setup: apt has no lists of packages, so whether this system has ${unheard[*]} is not known. Run:" >&2
    echo "  sudo apt-get update" >&2
    exit 1
  fi
  [ ${#left[@]} -gt 0 ] || return 0
  echo "setup: this system has packages that are not installed, and what needs them would be left out. Run:" >&2
  echo "  sudo apt-get install -y --no-install-recommends ${left[*]}" >&2
  exit 1
}
look_up "${wishes[@]}"
install_wanted

look_up "$@"
if [ ${#unknown[@]} -gt 0 ] && [ $may_install = no ]; then
  echo "setup: left out, this user may not install packages: ${unknown[*]}" >&2
  check_offered "$@"
  exit 0
fi
if [ ${#unknown[@]} -gt 0 ] && [ $fresh_lists = no ]; then
  "${sudo[@]}" apt-get update -qq || true
  look_up "$@"
fi
install_wanted
[ ${#unknown[@]} -eq 0 ] || echo "setup: left out, this system has no such package: ${unknown[*]}" >&2
check_offered "$@"
