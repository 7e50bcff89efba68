# Sourced by .ci/run and check_full.sh: step NAME COMMAND… runs a command under a heading and notes how long it took in
# the array `timings`.
timings=()
step() {
  local name=$1 start=$SECONDS
  shift
  echo "=== $name"
  "$@"
  timings+=("$(printf '%6d s  %s' $((SECONDS - start)) "$name")")
}
