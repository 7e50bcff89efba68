# Sourced by .ci/run and check_full.sh: step NAME COMMAND… runs a command under a heading and notes how long it took in
# the array `timings`, which is printed when the script ends, also by a failure.
timings=()
running=
step() {
  local start=$SECONDS
  running=$1
  shift
  echo "=== $running"
  "$@"
  timings+=("$(printf '%6d s  %s' $((SECONDS - start)) "$running")")
  running=
}

# The exit status stays what it was.
print_timings() {
  [ -z "$running" ] || timings+=("  failed  $running")
  [ ${#timings[@]} -eq 0 ] || printf '%s\n' "=== where the time went" "${timings[@]}"
}
trap print_timings EXIT
