#!/usr/bin/env bash
# Tests of setup_packages.sh with stand-ins for the system's commands: `installed`, `lists` and `fresh` are what is
# installed, what apt knows (nothing where the file is empty), and what it knows once its lists are refreshed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "setup_packages_test: $1" >&2; exit 1; }

mkdir "$work/bin"
stand_in() { { echo '#!/usr/bin/env bash'; echo "cd '$work'"; cat; } >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
stand_in dpkg-query <<<'! grep -qx -- "${@: -1}" installed || printf "install ok installed"'
stand_in apt-cache <<<'grep -qx -- "${@: -1}" lists'
stand_in id <<<'cat uid'
stand_in sudo <<<'exit 1'
stand_in apt-get <<'PROGRAM'
echo "$1" >>calls
[ "$1" != update ] || { [ -s fresh ] && cp fresh lists || exit 100; exit 0; }
[ "$1" != indextargets ] || { [ ! -s lists ] || echo lists; exit 0; }
for word in "${@:2}"; do
  case $word in -*) continue ;; broken) exit 100 ;; esac
  echo "$word" >>installed
done
PROGRAM

# run UID WISH…: on a system that has all it needs and knows `known` and `broken`, and `late` after a refresh.
run() {
  echo "$1" >"$work/uid"
  shift
  { grep -v '?$' "$here/packages_debian.txt"; echo here; } >"$work/installed"
  [ -z "${lacking:-}" ] || sed -i "/^$lacking\$/d" "$work/installed"
  printf '%s\n' known broken >"$work/lists"
  printf '%s\n' known broken late >"$work/fresh"
  [ -z "${offline:-}" ] || : >"$work/fresh"
  [ -z "${offline:-}" ] || : >"$work/lists"
  : >"$work/calls"
  env -u KPT_PYTHON PATH="$work/bin:$PATH" "$here/setup_packages.sh" "$@" >"$work/out" 2>"$work/err"
}
has() { grep -qx "$1" "$work/installed"; }
lines() { wc -l <"$work/err"; }

run 0 || fail "a system that has everything is no failure"
[ ! -s "$work/calls" ] && [ ! -s "$work/err" ] || fail "there was nothing to do and nothing to say"
run 0 here known || fail "a wish that can be had is no failure"
has known || fail "a wish that can be had was not installed"
[ "$(cat "$work/calls")" = install ] || fail "the lists were refreshed for a package that they hold"
run 0 late || fail "a wish in fresh lists is no failure"
has late || fail "the lists were not refreshed for a package that they lack"
run 0 nowhere known unheard-of || fail "a wish that no list holds is a failure"
has known || fail "one wish that cannot be had cost another"
[ "$(lines)" -eq 1 ] && grep -q "no such package: nowhere unheard-of" "$work/err" || fail "what is left out is not said"
[ "$(grep -c update "$work/calls")" -eq 1 ] || fail "the lists were refreshed more than once"
run 0 broken || fail "a wish that cannot be installed is a failure"
grep -q "broken could not be installed" "$work/err" || fail "that a wish could not be installed is not said"
run 1000 here known || fail "a wish of a user who may not install is a failure"
[ "$(lines)" -eq 1 ] && grep -q "may not install packages: known" "$work/err" || fail "that the user may not is not said"
[ ! -s "$work/calls" ] || fail "apt-get was called for a user who may not"
run 0 --offered here known late nowhere || fail "what no list holds is a failure with --offered"
has known && has late || fail "--offered kept wishes from being installed"
if run 0 --offered known broken; then fail "a wish that the system has and cannot be installed is no failure with --offered"; fi
grep -q "no-install-recommends broken\$" "$work/err" || fail "the line that installs what is left out is missing"
if run 1000 --offered known; then fail "a wish of a user who may not install is no failure with --offered"; fi
run 1000 --offered here nowhere || fail "what nobody has is a failure with --offered for a user who may not install"
offline=yes
for user in 0 1000; do
  if run $user --offered here known; then fail "where apt has no lists --offered cannot tell and yet passes (user $user)"; fi
  grep -q "apt has no lists" "$work/err" && grep -q "apt-get update\$" "$work/err" || fail "that apt has no lists is not said"
  run $user --offered here || fail "lists are asked for although all that is wished for is installed (user $user)"
  run $user known || fail "without --offered a wish that nobody knows of is a failure (user $user)"
done
offline=
lacking=cmake
if run 1000 known; then fail "a package that is needed and missing is no success"; fi
grep -q "no-install-recommends cmake\$" "$work/err" || fail "the line to run is missing, or names a wish"
run 0 known || fail "what is needed could not be installed"
has cmake && has known || fail "what is needed and what is wished for were not installed"
echo "setup_packages_test: passed"
