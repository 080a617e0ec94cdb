# shellcheck shell=bash
# Arguments: NAME LOCAL (the name without dots, as Bonjour wants it).
name="$1"
local_name="$2"
set_name() {
    if [ "$(scutil --get "$1" 2>/dev/null </dev/null || true)" != "$2" ]; then
        as_root scutil --set "$1" "$2"
        changed "$1"
    fi
}
set_name HostName "$name"
set_name LocalHostName "$local_name"
set_name ComputerName "$name"
