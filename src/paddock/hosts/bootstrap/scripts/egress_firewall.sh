# shellcheck shell=bash
# What virtual machines may not reach. Arguments, in base64: RULES HELPER PLIST.
# On a live host only our own anchor is loaded, never /etc/pf.conf: that would flush the system's rules under running
# machines, and fails as soon as a table is busy.
rules="$(text "$1")"
helper="$(text "$2")"
plist="$(text "$3")"
program=/usr/local/bin/tuist-pf-runners
file=/etc/pf.anchors/tuist.runners

in_force() { as_root "${ROOT:-}$program" --check; }
has_stale_tables() { as_root pfctl -s Tables 2>/dev/null | awk '$1 == "vm_sources" || $1 == "blocked_dst" { found = 1 } END { exit !found }'; }

put "$program" 755 "$helper"
if ! holds "${ROOT:-}$file" "$rules" || ! in_force || has_stale_tables; then
    draft="$(mktemp "${TMPDIR:-/tmp}/pf.XXXXXX")"
    trap 'rm -f "$draft"' EXIT
    printf '%s\n' "$rules" >"$draft"
    as_root pfctl -n -q -a tuist.runners -f "$draft" || fail 70 "pfctl cannot read the rules"
    # Loaded first and kept after: a run that dies in between loads again, and none believes in rules never loaded.
    as_root "${ROOT:-}$program" "$draft" || fail 70 "the rules could not be loaded"
    in_force || fail 70 "the rules are loaded where nothing evaluates them, or pf is off"
    changed "loaded tuist.runners"
fi
put "$file" 644 "$rules"
edit_pf_conf '# BEGIN tuist.runners
anchor "tuist.runners"
load anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"
# END tuist.runners'
daemon dev.tuist.pfctl-runners "$plist"
