# shellcheck shell=bash
# Whether virtual machines can start: since macOS 15 they need the unlocked keychain of a console session. Argument: USER.
# It is said and not mended: the mend is automatic login, which ends every machine and so is no business of an update.
if [ -z "$(session_of "$1")" ]; then
    note "there is no console session of $1, so that no virtual machine can start: set up automatic login, then reboot the host"
fi
