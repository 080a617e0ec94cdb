# shellcheck shell=bash
# Reboot in order, a moment after this session has ended: asked for in the foreground, it would cut off its own answer.
as_root true || fail 1 "sudo asks for a password, so that the Mac cannot be rebooted from here"
(sleep 3; sudo -n shutdown -r now) </dev/null >/dev/null 2>&1 &
changed "asked for a reboot"
