# shellcheck shell=bash
# Logs of our jobs never fill the disk. Argument: the file for newsyslog in base64; an empty one is not wanted.
file=/etc/newsyslog.d/paddock.conf
if [ -z "$1" ]; then
    absent "$file"
    exit 0
fi
rules="$(text "$1")"
if ! holds "${ROOT:-}$file" "$rules"; then
    draft="$(mktemp "${TMPDIR:-/tmp}/newsyslog.XXXXXX")"
    trap 'rm -f "$draft"' EXIT
    printf '%s\n' "$rules" >"$draft"
    # -n changes nothing. A line that newsyslog cannot read would stop the rotation of everybody's logs.
    as_root newsyslog -n -f "$draft" >/dev/null || fail 70 "newsyslog cannot read the rules"
fi
put "$file" 644 "$rules"
