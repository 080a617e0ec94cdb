# shellcheck shell=bash
# What the network of virtual machines needs. Arguments: SECONDS SOFTNET; an empty one is not wanted, and is undone where
# we did it. The record is written before each change, so that a run that died in between is undone as well.
seconds="$1"
softnet="$2"
domain="${ROOT:-}/Library/Preferences/SystemConfiguration/com.apple.InternetSharing.default"
lease_record=/usr/local/share/paddock/vm-network/lease
softnet_record=/usr/local/share/paddock/vm-network/softnet

# Leases of a day use up the bridge's 253 addresses within half a day of short jobs.
lease_time() { as_root defaults read "$domain" bootpd 2>/dev/null | awk -F'[ =;]+' '$2 == "DHCPLeaseTimeSecs" { print $3 }' || true; }
if [ -n "$seconds" ]; then
    put "$lease_record" 644 "$seconds"
    if [ "$(lease_time)" != "$seconds" ]; then
        as_root defaults write "$domain" bootpd -dict-add DHCPLeaseTimeSecs -int "$seconds"
        changed "DHCP leases of $seconds seconds"
    fi
elif as_root test -e "${ROOT:-}$lease_record"; then
    if [ -n "$(lease_time)" ]; then
        as_root defaults delete "$domain" bootpd
        changed "DHCP leases as macOS has them"
    fi
    absent "$lease_record"
fi

# Softnet runs as root, and Tart asks for the password only on a terminal: so the bit is set beforehand.
is_setuid() { as_root test -u "${ROOT:-}$1" && [ "$(as_root stat -f %Su "${ROOT:-}$1")" = root ]; }
before="$(as_root cat "${ROOT:-}$softnet_record" 2>/dev/null || true)"
if [ -n "$before" ] && [ "$before" != "$softnet" ]; then
    if as_root test -u "${ROOT:-}$before"; then
        as_root chmod u-s "${ROOT:-}$before"
        changed "$before runs as its caller again"
    fi
    absent "$softnet_record"
fi
if [ -n "$softnet" ]; then
    as_root test -f "${ROOT:-}$softnet" || fail 76 "the fleet wants Softnet, and $softnet is not there: name a payload that installs it, or another path"
    put "$softnet_record" 644 "$softnet"
    if ! is_setuid "$softnet"; then
        # First whose it is and who may write it, then the bit: what others can write never runs as root.
        as_root chown root:wheel "${ROOT:-}$softnet"
        as_root chmod 755 "${ROOT:-}$softnet"
        as_root chmod u+s "${ROOT:-}$softnet"
        changed "$softnet runs as root"
    fi
fi
