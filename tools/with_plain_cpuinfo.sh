#!/usr/bin/env bash
# Runs a command so that XLA's CPU compiler leaves SVE alone.   with_plain_cpuinfo.sh COMMAND [ARGUMENT…]
# LLVM knows an Arm core by its part number in /proc/cpuinfo and emits what that core has; on a machine that hides SVE
# the process then dies of it. There the command sees, in a mount namespace of its own, the number of a Neoverse-N1,
# which has none. Everywhere else it just runs.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: with_plain_cpuinfo.sh COMMAND [ARGUMENT…]" >&2; exit 2; }

cores='0xd(40|49|4f|83|84|8e)' # as in src/engines/xla/pjrt/host_flags.cpp
if ! grep -qE "^CPU part.*: $cores$" /proc/cpuinfo || grep -qE '^Features.* sve( |$)' /proc/cpuinfo; then
  exec "$@"
fi
plain=$(mktemp)
trap 'rm -f "$plain"' EXIT
sed -E "s/^(CPU part.*: )$cores$/\10xd0c/" /proc/cpuinfo >"$plain"
if ! unshare --map-root-user --mount mount --bind "$plain" /proc/cpuinfo 2>/dev/null; then
  echo "with_plain_cpuinfo: this machine hides SVE and forbids a mount namespace of one's own (unshare); run it as root or allow user namespaces" >&2
  exit 125
fi
# The mount keeps the contents; the name goes before the command starts.
exec unshare --map-root-user --mount bash -c 'mount --bind "$0" /proc/cpuinfo && rm -f "$0" && exec "$@"' "$plain" "$@"
