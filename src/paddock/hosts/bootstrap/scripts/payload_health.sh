# shellcheck shell=bash
# Runs a payload's own health check until it succeeds or SECONDS_LEFT have passed. Arguments: SECONDS COMMAND…
tries="$1"
shift
program="$1"
shift
case "$program" in
    /*) program="${ROOT:-}$program" ;;
esac
status=0
while :; do
    status=0
    "$program" "$@" </dev/null >/dev/null || status=$?
    [ "$status" != 0 ] || exit 0
    tries=$((tries - 2))
    [ "$tries" -gt 0 ] || fail 70 "the health check ended with status $status"
    sleep 2
done
