# shellcheck shell=bash
# What every step begins with. Each step checks first and changes only what is not so already.
# Answers on stdout, one a line: `changed WHAT`, `note TEXT`, `value NAME TEXT`. Exit status 0 means: it is so now.
set -euo pipefail

changed() { printf 'changed %s\n' "$*"; }
note() { printf 'note %s\n' "$*"; }
value() { printf 'value %s %s\n' "$1" "$2"; }

# fail STATUS TEXT: the status tells what kind of failure this is.
fail() {
    local status="$1"
    shift
    printf '%s\n' "$*" >&2
    exit "$status"
}

# Contents of several lines arrive in base64: an argument holds no newline.
text() { printf '%s' "$1" | base64 -D; }

# mentions TEXT < output: reads all of it, so that with pipefail the writer never dies of a closed pipe.
mentions() { awk -v wanted="$1" 'index($0, wanted) { found = 1 } END { exit !found }'; }

# Nothing run as root may read what is left of stdin: secrets and uploads are there.
as_root() { sudo -n "$@" </dev/null; }

mode_of() { as_root stat -f %Lp "$1" 2>/dev/null || true; }
holds() { printf '%s\n' "$2" | sudo -n cmp -s - "$1" 2>/dev/null; }

# put PATH MODE CONTENT: a file of root's with exactly this content and mode. PUT=1 if it was not so before.
# It appears whole or not at all: written beside its place, then renamed.
PUT=0
put() {
    local path="${ROOT:-}$1" mode="$2" content="$3"
    PUT=0
    if holds "$path" "$content" && [ "$(mode_of "$path")" = "$mode" ]; then
        return 0
    fi
    as_root mkdir -p "$(dirname "$path")"
    as_root install -m "$mode" -o root -g wheel /dev/null "$path.new"
    printf '%s\n' "$content" | sudo -n tee "$path.new" >/dev/null
    as_root mv -f "$path.new" "$path"
    PUT=1
    changed "$1"
}

# put_secret PATH OWNER BASE64: as put, for what only its owner may read. The text never is an argument of a command.
put_secret() {
    local path="${ROOT:-}$1" owner="$2" encoded="$3" present
    PUT=0
    present="$(as_root cat "$path" 2>/dev/null | base64 | tr -d '\n' || true)"
    if [ "$present" != "$encoded" ] || [ "$(mode_of "$path")" != 600 ]; then
        as_root mkdir -p "$(dirname "$path")"
        as_root install -m 600 -o "$owner" -g wheel /dev/null "$path.new"
        printf '%s' "$encoded" | base64 -D | sudo -n tee "$path.new" >/dev/null
        as_root mv -f "$path.new" "$path"
        PUT=1
    fi
    # A file that its reader cannot read is as good as none.
    if [ "$(as_root stat -f %Su "$path")" != "$owner" ]; then
        as_root chown "$owner" "$path"
        PUT=1
    fi
    [ "$PUT" = 0 ] || changed "$1"
}

# absent PATH…: none of these files is there. A path that is empty, or a folder at the top of the disk, is somebody's mistake.
absent() {
    local path
    for path in "$@"; do
        case "$path" in
            /?*/?*) ;;
            *) fail 70 "refused to remove '$path'" ;;
        esac
        if as_root test -e "${ROOT:-}$path"; then
            as_root rm -rf "${ROOT:-}$path"
            changed "removed $path"
        fi
    done
}

is_loaded() { as_root launchctl print "system/$1" >/dev/null 2>&1; }
pid_of() { as_root launchctl print "system/$1" 2>/dev/null | awk '$1 == "pid" && $2 == "=" { print $3; exit }' || true; }

# launchd needs a moment between the end of a job and its next start.
load_job() {
    local try
    for try in 1 2 3 4 5; do
        if as_root launchctl bootstrap system "${ROOT:-}/Library/LaunchDaemons/$1.plist" 2>/dev/null; then
            return 0
        fi
        is_loaded "$1" && return 0
        sleep "$try"
    done
    as_root launchctl bootstrap system "${ROOT:-}/Library/LaunchDaemons/$1.plist"
}

unload_job() {
    if is_loaded "$1"; then
        as_root launchctl bootout "system/$1" || true
        changed "stopped $1"
    fi
}

# daemon LABEL PLIST: loaded, with exactly this plist.
daemon() {
    put "/Library/LaunchDaemons/$1.plist" 644 "$2"
    if [ "$PUT" = 1 ] || ! is_loaded "$1"; then
        unload_job "$1"
        load_job "$1"
        changed "loaded $1"
    fi
}
