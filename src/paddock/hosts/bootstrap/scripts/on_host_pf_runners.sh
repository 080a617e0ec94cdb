#!/bin/bash
# Loads the rules for virtual machines: at every start of the Mac, each minute where they are not in force any more, and by
# the bootstrap. Argument, optional: another file with rules; or --check, which only tells (0: in force, 3: not).
# How it ended stands in the file below, for the node agent: while they are not in force it starts no machine.
rules="${ROOT:-}/etc/pf.anchors/tuist.runners"
state="${ROOT:-}/var/run/tuist-egress"

is_on() { pfctl -s info </dev/null 2>/dev/null | grep -q 'Status: Enabled'; }
main_names() { pfctl -s rules </dev/null 2>/dev/null | grep -q "anchor \"$1\""; }
has_rules() { [ -n "$(pfctl -a "$1" -s rules </dev/null 2>/dev/null)" ]; }
# pf reads `self` when it loads a rule: rules of before an address came do not know it.
addresses() { ifconfig </dev/null | awk '$1 == "inet" || $1 == "inet6" { print $2 }' | sort | tr '\n' ' '; }
in_force() {
    is_on && has_rules tuist.runners || return 1
    main_names 'tuist\.runners' || { main_names 'com\.apple/\*' && has_rules com.apple/tuist.runners; }
}
tell() {
    mkdir -p "${state%/*}"
    printf '%s\n%s\n' "$1" "$(addresses)" >"$state.new" && mv -f "$state.new" "$state"
}

if [ "${1:-}" = --check ]; then
    in_force || exit 3
    exit 0
fi
if [ $# = 0 ] && in_force && [ "$(sed -n 2p "$state" 2>/dev/null)" = "$(addresses)" ]; then
    # Nothing to load, so that nothing is disturbed.
    tell armed
    exit 0
fi
[ $# = 0 ] || rules="$1"

# Earlier versions made these tables `persist`, at one time in the anchor, at another in the main rules. Only `-T kill`
# removes such a table (flushing keeps it), each scope has its own, and a rule that still names one keeps it busy.
kill_tables() {
    for table in vm_sources blocked_dst; do
        for scope in "$@"; do
            if [ "$scope" = main ]; then
                pfctl -q -t "$table" -T kill </dev/null 2>/dev/null
            else
                pfctl -q -a "$scope" -t "$table" -T kill </dev/null 2>/dev/null
            fi
        done
    done
}
empty() { printf '' | pfctl -q -a "$1" -f - 2>/dev/null; }
load() {
    pfctl -q -a "$1" -f "$rules" </dev/null 2>/dev/null && return 0
    kill_tables "$1" main
    empty "$1"
    kill_tables "$1" main
    pfctl -q -a "$1" -f "$rules" </dev/null
}
arm() {
    # Each -E counts as one more user of pf, so only where it is off.
    is_on || pfctl -q -E </dev/null 2>/dev/null
    if pfctl -s Tables </dev/null 2>/dev/null | grep -q -x -e vm_sources -e blocked_dst; then
        kill_tables main
    fi
    if ! main_names 'tuist\.runners' && ! main_names 'com\.apple/\*'; then
        # Somebody flushed the main rules: nothing of the system's is left in them that a load could take away, and without
        # Apple's anchors nothing is evaluated, ours neither.
        empty tuist.runners
        pfctl -q -f "${ROOT:-}/etc/pf.conf" </dev/null 2>/dev/null
    fi
    load tuist.runners || return 1
    # Until the next start of the Mac its main rules do not name our anchor, and a rule that nothing evaluates protects
    # nobody. Apple's own line evaluates everything below com.apple, so until then the rules live there as well.
    if ! main_names 'tuist\.runners'; then
        load com.apple/tuist.runners
    elif has_rules com.apple/tuist.runners; then
        empty com.apple/tuist.runners
    fi
}

if arm && in_force; then
    tell armed
    exit 0
fi
tell open
exit 1
