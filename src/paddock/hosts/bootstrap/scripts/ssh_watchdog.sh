# shellcheck shell=bash
# Arguments, in base64: HELPER PLIST.
put /usr/local/bin/tuist-ssh-reachability 755 "$(text "$1")"
daemon dev.tuist.ssh-reachability "$(text "$2")"
