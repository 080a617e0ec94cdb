# shellcheck shell=bash
# Who may reach SSH. Arguments, in base64: RULES HELPER PLIST. A sub-anchor of com.apple, which the stock rules evaluate: no edit
# of /etc/pf.conf is needed, and an emptied anchor is the way back.
rules="$(text "$1")"
helper="$(text "$2")"
plist="$(text "$3")"
program=/usr/local/bin/tuist-pf-sshguard
file=/etc/pf.anchors/tuist.sshguard

in_force() {
    as_root pfctl -s info 2>/dev/null | mentions 'Status: Enabled' || return 1
    [ -n "$(as_root pfctl -a com.apple/tuist.sshguard -s rules 2>/dev/null)" ]
}
put "$program" 755 "$helper"
if ! holds "${ROOT:-}$file" "$rules" || ! in_force; then
    draft="$(mktemp "${TMPDIR:-/tmp}/pf.XXXXXX")"
    trap 'rm -f "$draft"' EXIT
    printf '%s\n' "$rules" >"$draft"
    as_root pfctl -n -q -a com.apple/tuist.sshguard -f "$draft" || fail 70 "pfctl cannot read the rules"
    as_root "${ROOT:-}$program" "$draft" || fail 70 "the rules could not be loaded"
    in_force || fail 70 "the rules are not in force, or pf is off"
    changed "loaded tuist.sshguard"
fi
put "$file" 644 "$rules"
daemon dev.tuist.pfctl-sshguard "$plist"
