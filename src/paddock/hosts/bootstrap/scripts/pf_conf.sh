# shellcheck shell=bash
# /etc/pf.conf with our anchor named once, or not at all. Everything that is not ours stays, byte for byte.

# without_ours < pf.conf: drops the marked block, and the bare lines that earlier versions wrote without marks.
# A block whose end mark is missing is dropped line by line, so that nothing after it is lost.
without_ours() {
    awk '
        function ours(line) {
            return line ~ /^[ \t]*(load[ \t]+)?anchor[ \t]+"tuist\.runners"/ || line ~ /^#.*tuist\.runners/
        }
        /^# BEGIN tuist\.runners/ && !inside { inside = 1; kept = ""; next }
        inside && /^# END tuist\.runners/ { inside = 0; next }
        inside { if (!ours($0)) kept = kept $0 "\n"; next }
        !ours($0) { print }
        END { if (inside) printf "%s", kept }
    '
}

# edit_pf_conf BLOCK: an empty block removes ours. Only the file changes: what is loaded stays loaded.
edit_pf_conf() {
    local file="${ROOT:-}/etc/pf.conf" before after
    before="$(as_root cat "$file")" || fail 70 "there is no /etc/pf.conf"
    after="$(printf '%s\n' "$before" | without_ours)"
    if [ -n "$1" ]; then
        after="$after
$1"
    fi
    if [ "$(printf '%s\n' "$before" | grep -c 'com\.apple' || true)" != "$(printf '%s\n' "$after" | grep -c 'com\.apple' || true)" ]; then
        fail 70 "refusing to write /etc/pf.conf: one of Apple's anchors would be lost"
    fi
    if [ "$before" != "$after" ]; then
        # -n parses and loads nothing.
        printf '%s\n' "$after" | sudo -n pfctl -n -q -f - 2>/dev/null || fail 70 "refusing to write /etc/pf.conf: pfctl cannot read it"
        put /etc/pf.conf 644 "$after"
    fi
}
