# shellcheck shell=bash
# Reboot in order, a minute after this session has ended: asked for at once, it would cut off its own answer.
as_root shutdown -r +1 >/dev/null
changed "asked for a reboot"
