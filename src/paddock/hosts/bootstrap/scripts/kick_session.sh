# shellcheck shell=bash
# A console session where there is none, because virtual machines need one: after a start without a display, loginwindow
# does not log in by itself. Argument: USER. What runs in a virtual machine would end, so nothing is done beside one.
user="$1"
as_root true 2>/dev/null || fail 70 "sudo asks for a password, so that nothing can be told or done"
running=0
as_root pgrep -f com.apple.Virtualization.VirtualMachine >/dev/null || running=$?
case "$running" in
    0) fail 75 "a virtual machine runs, so that nobody is logged in anew" ;;
    1) ;;
    *) fail 70 "it cannot be told whether a virtual machine runs" ;;
esac
if [ -z "$(session_of "$user")" ]; then
    kick_loginwindow "$user" || fail 70 "no console session of $user came within 30 seconds: is automatic login set up?"
fi
