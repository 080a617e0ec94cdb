# shellcheck shell=bash
# The console session of a user, which virtual machines need, and how it is begun anew.

# session_of USER: which Aqua session the user has, by who made it and its number; empty where there is none. Each login
# makes another one.
session_of() {
    as_root launchctl print "gui/$(id -u "$1")" 2>/dev/null | awk '
        $2 == "=" && $1 == "session" && $3 == "Aqua" { aqua = 1 }
        $2 == "=" && ($1 == "creator" || $1 == "handle") && !seen[$1]++ { made = made " " $3 }
        END { if (aqua) print "Aqua" made }
    ' || true
}

# kick_loginwindow USER: ends every program of the console session and logs in again; fails where no other session came
# within half a minute. No status of a command says that it did.
kick_loginwindow() {
    local before now _
    before="$(session_of "$1")"
    # Since macOS 14.4 launchd refuses the first for processes of its own, and starts again what is killed. The last is for
    # a loginwindow that does not run at all.
    as_root launchctl kickstart -k system/com.apple.loginwindow 2>/dev/null ||
        as_root killall loginwindow 2>/dev/null ||
        as_root launchctl kickstart system/com.apple.loginwindow 2>/dev/null || true
    changed "kicked loginwindow"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        now="$(session_of "$1")"
        if [ -n "$now" ] && [ "$now" != "$before" ]; then
            return 0
        fi
        sleep 2
    done
    return 1
}
