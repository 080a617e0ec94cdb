# shellcheck shell=bash
# The Mac's key for the gateway goes to the agent's own program, with the arguments of its job, so that it lies where the agent
# looks. Arguments: NUMBER RUN_AS PROGRAM ARGUMENT…; the number 0 only asks.
# Secret, where there is a number: the key, which is never an argument.
number="$1"
run_as="$2"
program="${ROOT:-}$3"
shift 3
agent() {
    if [ "$run_as" = root ]; then
        sudo -n "$program" "$@"
    else
        "$program" "$@"
    fi
}
if [ "$number" = 0 ]; then
    answer="$(agent "$@" take-key --ask </dev/null)"
else
    IFS= read -r key
    answer="$(printf '%s %s\n' "$number" "$key" | agent "$@" take-key)"
fi
value answer "$answer"
