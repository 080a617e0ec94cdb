# shellcheck shell=bash
# A job that runs, with this plist and started since its files last changed. Arguments: LABEL PLIST(base64) STAMP RESTART LOG USER FOLDER.
# STAMP names what the running process must have been started with (program, kubeconfig). It is written only after the
# start was seen to work, so a run that died between the change and the start is made good by the next.
label="$1"
plist="$(text "$2")"
stamp="$3"
restart="$4"
log="$5"
user="$6"
folder="$7"
stamps="/usr/local/share/paddock/jobs/$label"

is_stable() {
    local pid
    pid="$(pid_of "$label")"
    [ -n "$pid" ] && [ "$pid" != "$1" ] || return 1
    sleep 5
    [ "$(pid_of "$label")" = "$pid" ]
}
started_since() {
    local _
    for _ in 1 2 3 4; do
        if is_stable "$1"; then
            return 0
        fi
        sleep 2
    done
    return 1
}

if [ -n "$log" ] && ! as_root test -e "${ROOT:-}$log"; then
    as_root mkdir -p "$(dirname "${ROOT:-}$log")"
    as_root install -m 644 -o "$user" -g wheel /dev/null "${ROOT:-}$log"
    changed "$log"
fi
if [ -n "$folder" ]; then
    if ! as_root test -d "${ROOT:-}$folder"; then
        as_root mkdir -p "${ROOT:-}$folder"
        as_root chmod 700 "${ROOT:-}$folder"
        changed "$folder"
    fi
    if [ "$(as_root stat -f %Su "${ROOT:-}$folder")" != "$user" ]; then
        as_root chown "$user" "${ROOT:-}$folder"
        changed "$folder belongs to $user"
    fi
fi
before="$(pid_of "$label")"
put "/Library/LaunchDaemons/$label.plist" 644 "$plist"
if [ "$PUT" = 0 ] && [ -n "$before" ] && [ "$restart" = no ] && holds "${ROOT:-}$stamps" "$stamp"; then
    exit 0
fi
if [ "$PUT" = 0 ] && is_loaded "$label"; then
    # Registered already with this plist: a kick is enough. Registering again and again makes macOS stop keeping it alive.
    # Now and then it fails although the job is started: that a process is new and stays is what counts.
    as_root launchctl kickstart -k "system/$label" 2>/dev/null || true
else
    unload_job "$label"
    as_root launchctl enable "system/$label"
    load_job "$label"
fi
if ! started_since "$before"; then
    as_root launchctl kickstart -k "system/$label" || true
    started_since "$before" || fail 70 "$label does not stay up"
fi
changed "started $label"
put "$stamps" 644 "$stamp"
