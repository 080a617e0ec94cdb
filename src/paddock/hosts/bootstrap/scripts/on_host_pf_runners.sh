#!/bin/bash
# Loads the rules for virtual machines: at every start of the Mac, and by the bootstrap. Loads our anchors and nothing else.
# Argument, optional: another file with rules.
rules="${1:-${ROOT:-}/etc/pf.anchors/tuist.runners}"

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

load() {
    pfctl -q -a "$1" -f "$rules" </dev/null 2>/dev/null && return 0
    kill_tables "$1" main
    printf '' | pfctl -q -a "$1" -f - 2>/dev/null
    kill_tables "$1" main
    pfctl -q -a "$1" -f "$rules" </dev/null
}

# Each -E counts as one more user of pf, so only where it is off.
if ! pfctl -s info </dev/null 2>/dev/null | grep -q 'Status: Enabled'; then
    pfctl -q -E </dev/null 2>/dev/null
fi
if pfctl -s Tables </dev/null 2>/dev/null | grep -q -x -e vm_sources -e blocked_dst; then
    kill_tables main
fi
load tuist.runners || exit 1

# Until the next start of the Mac its main rules do not name our anchor, and a rule that nothing evaluates protects
# nobody. Apple's own line evaluates everything below com.apple, so until then the rules live there as well.
if pfctl -s rules </dev/null 2>/dev/null | grep -q 'anchor "tuist\.runners"'; then
    if [ -n "$(pfctl -a com.apple/tuist.runners -s rules </dev/null 2>/dev/null)" ]; then
        printf '' | pfctl -q -a com.apple/tuist.runners -f - 2>/dev/null
    fi
    exit 0
fi
load com.apple/tuist.runners
