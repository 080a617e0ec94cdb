# shellcheck shell=bash
# A fleet, or a host, without the guard: SSH is open to whoever could reach it before.
unload_job dev.tuist.pfctl-sshguard
absent /Library/LaunchDaemons/dev.tuist.pfctl-sshguard.plist /usr/local/bin/tuist-pf-sshguard
if [ -n "$(as_root pfctl -a com.apple/tuist.sshguard -s rules 2>/dev/null)" ]; then
    printf '' | sudo -n pfctl -q -a com.apple/tuist.sshguard -f - 2>/dev/null
    changed "emptied com.apple/tuist.sshguard"
fi
absent /etc/pf.anchors/tuist.sshguard
