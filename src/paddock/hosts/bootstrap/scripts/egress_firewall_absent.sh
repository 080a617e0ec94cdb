# shellcheck shell=bash
# A fleet without the firewall: nothing of it is left, neither loaded nor on disk.
unload_job dev.tuist.pfctl-runners
absent /Library/LaunchDaemons/dev.tuist.pfctl-runners.plist /usr/local/bin/tuist-pf-runners /var/run/tuist-egress
if as_root test -e "${ROOT:-}/etc/pf.conf"; then
    edit_pf_conf ''
fi
for anchor in tuist.runners com.apple/tuist.runners; do
    if [ -n "$(as_root pfctl -a "$anchor" -s rules 2>/dev/null)" ]; then
        printf '' | sudo -n pfctl -q -a "$anchor" -f - 2>/dev/null
        changed "emptied $anchor"
    fi
done
absent /etc/pf.anchors/tuist.runners
