#!/usr/bin/env bash
# tools/with_plain_cpuinfo.sh hands arguments and exit codes through, and hides cores whose SVE the system hides.
set -euo pipefail
with=$(dirname "$0")/../../tools/with_plain_cpuinfo.sh

fail() { echo "check_plain_cpuinfo: $1" >&2; exit 1; }
code=0
seen=$("$with" printf '%s|' 'a b' '' '$c') || code=$?
[ $code -ne 125 ] || exit 77 # said why, and nothing can be done here
[ "$code $seen" = '0 a b||$c|' ] || fail "arguments came as '$seen', code $code"
code=0
"$with" bash -c 'exit 7' || code=$?
[ $code -eq 7 ] || fail "exit code 7 became $code"
code=0
"$with" 2>/dev/null || code=$?
[ $code -eq 2 ] || fail "without a command the code is $code"
inside=$("$with" cat /proc/cpuinfo)
if grep -qE '^CPU part.*: 0xd(40|49|4f|83|84|8e)$' <<<"$inside" && ! grep -qE '^Features.* sve( |$)' <<<"$inside"; then
  fail "a core with hidden SVE is still seen"
fi
