#!/bin/sh
# Paddock's guest: takes one job from the host, runs GitHub's runner on it, reports, and halts the VM.
#
# It promises: the VM halts on every path, and `rc` is written before that; no second copy runs; a VM that had its job
# takes no other; the runner's config is in no argument, no log and no file of ours. The host owns `env`, the guest `status`.
# rc: 0 the runner ran its course, or no job came; 143 the host stopped a job; 69 no way to GitHub, before `ready`; 1 the guest
# could not do its work; else the runner's own (7: GitHub calls this version too old).
# shellcheck disable=SC2317,SC2329  # functions are called by traps
[ -z "${ZSH_VERSION:-}" ] || emulate sh
set -u
env_share=${PADDOCK_SHARES:-/Volumes/My Shared Files}/env
status_share=${PADDOCK_SHARES:-/Volumes/My Shared Files}/status
work='' watcher=''

finish() {
  code=$?
  [ ! -s "$work/code" ] || read -r code <"$work/code"
  [ ! -e "$work/finishing" ] || exit "$code" # a watcher that ends while it is forked has our traps still
  { true >"$work/finishing"; } 2>/dev/null
  trap '' HUP INT TERM; trap - EXIT # nothing interrupts the way to the halt
  [ -z "$watcher" ] || kill "$watcher"
  mark finishing; copy_log
  put rc "$code" # before `done`: who sees `done` finds the code
  put state 'done'
  # A halt that fails leaves a VM that says `done`: the host stops it.
  eval "${PADDOCK_HALT:-sudo -n shutdown -h now}"
  exit "$code"
}
trap finish EXIT
trap 'exit 143' HUP INT TERM

# By rename, so that the host never reads half a line. A share that is full or gone costs a report, never the job.
put() {
  { printf '%s\n' "$2" >"$status_share/.$1.$$" && mv -f "$status_share/.$1.$$" "$status_share/$1"; } 2>/dev/null
}
mark() { put mark "$(date +%s) $1"; }

fail() { printf 'paddock-guest: %s\n' "$1" >>"$work/log"; exit "${2:-1}"; }

# The runner writes to the guest's own disk, and we copy: a full share cannot break the runner. What was copied is the
# share's own length, so a copy that was cut off goes on where it stopped. 8 MiB are enough for the runner's console.
copy_log() {
  {
    have=$(wc -c <"$status_share/log") || have=0
    [ "$have" -ge 8388608 ] || tail -c "+$((have + 1))" "$work/log" >>"$status_share/log"
  } 2>/dev/null
}

# A guest's clock starts minutes late, and GitHub refuses tokens of the past. Best effort, five seconds at most; nothing
# is killed, because sudo's process is not ours to signal.
set_clock() {
  { sudo -n sntp -sS time.apple.com && : >"$work/clock-is-set"; : >"$work/clock-was-tried"; } >/dev/null 2>&1 &
  waited=0
  until [ -e "$work/clock-was-tried" ] || [ "$waited" -ge 25 ]; do
    sleep 0.2
    waited=$((waited + 1))
  done
}

# Runs beside the runner. The mark moves with the stage, with the runner's logs, and as long as a worker lives; it stands still
# where a listener hangs. One that goes on logging its retries is ended: in half an hour, 900 turns, its worker would have come.
watch_runner() {
  stage=starting sizes='' turns=0
  while :; do
    [ ! -e "$env_share/stop" ] || end_runner 143
    [ "$turns" -lt "${PADDOCK_TURNS:-900}" ] || end_runner 1
    was=$stage seen=$sizes turns=$((turns + 1))
    if pgrep -f "$runner/bin/Runner.Worker" >/dev/null; then
      stage=running turns=0
    elif [ "$was" = running ]; then
      stage=finishing
    elif [ "$was" = starting ] && [ -n "$(find "$runner/_diag" -name 'Runner_*')" ]; then
      stage=listening
    fi
    sizes=$(wc -c "$work/log" "$runner"/_diag/*.log)
    if [ "$stage" != "$was" ] || [ "$stage" = running ] || [ "$sizes" != "$seen" ]; then
      mark "$stage"
      copy_log
    fi
    sleep "${PADDOCK_TICK:-2}"
  done 2>/dev/null
}

# TERM lets the runner tell GitHub that the job is cancelled; without it the job hangs there for a quarter of an hour.
end_runner() {
  until [ -s "$work/pid" ]; do sleep 0.1; done
  echo "$1" >"$work/code"
  read -r pid <"$work/pid"
  kill -TERM "$pid"
  sleep "${PADDOCK_GRACE:-10}"
  kill -KILL "$pid"
}

# One folder is lock and workplace. It is of this boot: a guest that was rebooted makes a new one and comes to the check
# of `state`. Both ways to start us (exec, LaunchAgent) are the same user, so two copies meet here.
work=${HOME:-/tmp}/.paddock-guest-$(sysctl -n kern.bootsessionuuid 2>/dev/null)
if ! mkdir "$work" 2>/dev/null; then
  [ -d "$work" ] || exit 1
  trap - EXIT # the other copy reports and halts
  exit 0
fi
exec 2>>"$work/log"

case $(cat "$status_share/state" 2>/dev/null) in
  job | done) fail 'this VM was started again after it had its job: it takes no second one' ;;
esac
put state booted
set -a
# shellcheck disable=SC1091
[ ! -f "$env_share/env" ] || . "$env_share/env" || fail 'the env file of the share cannot be read'
set +a

# All that takes time comes before `ready`: a job that arrives starts at once, and a guest without a runner takes none.
set_clock
turn=0 # whatever answers over TLS will do: of a VM that reaches nothing the job would die, and the next one after it
until [ -z "${PADDOCK_GITHUB_URL:-}" ] || curl -sSI -o /dev/null -m 10 "$PADDOCK_GITHUB_URL"; do
  [ $((turn = turn + 1)) -lt 3 ] || fail "nothing answers over TLS at $PADDOCK_GITHUB_URL, three times" 69
  [ ! -e "$env_share/stop" ] || exit 0
  sleep "${PADDOCK_PAUSE:-5}"
done
runner=${HOME:-/tmp}/actions-runner
if [ -f "$env_share/runner.tar.gz" ]; then
  runner=${HOME:-/tmp}/paddock-runner # the same path in every VM: compilers' caches depend on it
  { mkdir -p "$runner" && tar -xzf "$env_share/runner.tar.gz" -C "$runner"; } || fail 'the runner archive cannot be unpacked'
fi
{ cd "$runner" && [ -x ./run.sh ]; } || fail "there is no runner: no archive on the share, and no run.sh in $runner"
runner=$(pwd -P)

{ mark waiting && put state ready; } || fail 'the status share cannot be written' # who sees `ready` finds a mark
turn=0
until [ -e "$env_share/job" ] || [ -e "$env_share/stop" ]; do
  [ $(((turn = turn + 1) % 25)) -ne 0 ] || mark waiting
  sleep 0.2
done
[ ! -e "$env_share/stop" ] || exit 0

job=$(cat "$env_share/job") # before `state` says so: the host takes the config back then
put state job # before the runner starts: a guest that is rebooted in mid-job must know
mark starting
case $job in
  '' | *[!A-Za-z0-9+/=]*) fail 'the job file does not hold one line of base64' ;;
esac
[ -e "$work/clock-is-set" ] || set_clock

# The runner is in the foreground: a background job ignores SIGINT, and SIGINT is how run.sh ends its listener.
watch_runner &
watcher=$!
ACTIONS_RUNNER_INPUT_JITCONFIG=$job RUNNER_MANUALLY_TRAP_SIG=1 ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1 \
  /bin/sh -c 'echo "$$" >"$0" && exec ./run.sh' "$work/pid" </dev/null >>"$work/log" 2>&1
