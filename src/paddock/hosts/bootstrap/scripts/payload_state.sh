# shellcheck shell=bash
# Whether a payload is installed as it should be. Arguments: NAME RECORD(base64) INSTALL_TO.
# The record is written last, so a record means that everything before it was done.
name="$1"
record="$(text "$2")"
target="$3"
file="${ROOT:-}/usr/local/share/paddock/payloads/$name"
as_installed="$(as_root sed -n 's/^as-installed //p' "$file" 2>/dev/null || true)"
state=missing
if [ "$(as_root grep -v '^as-installed ' "$file" 2>/dev/null || true)" = "$record" ]; then
    if [ "$as_installed" = folder ] && as_root test -d "${ROOT:-}$target"; then
        state=current
    elif [ -n "$as_installed" ] && [ "$(as_root shasum -a 256 "${ROOT:-}$target" 2>/dev/null | cut -d' ' -f1 || true)" = "$as_installed" ]; then
        state=current
    fi
fi
value state "$state"
