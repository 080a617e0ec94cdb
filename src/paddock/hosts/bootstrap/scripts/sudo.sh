# shellcheck shell=bash
# Passwordless sudo for the login user. Arguments: USER VERSION. Secret, only if VERSION is not empty: the password.
# A wrong password is worse than none: macOS locks the account after a few. So a password is tried once for each start of
# the Mac, and the try is written down before it happens, where the next operator finds it even if this one dies now.
user="$1"
version="$2"
password=''
if [ -n "$version" ]; then
    IFS= read -r password
fi

name="/etc/sudoers.d/$user-nopasswd"
line="$user ALL=(ALL) NOPASSWD: ALL"
marker="$HOME/.paddock/sudo-attempt"

# The line in a file of its own, found good by visudo: one bad file in sudoers.d breaks sudo for everybody.
draft=''
validated() {
    draft="$(mktemp "${TMPDIR:-/tmp}/sudoers.XXXXXX")"
    trap 'rm -f "$draft"' EXIT
    printf '%s\n' "$line" >"$draft"
    visudo -cf "$draft" >/dev/null </dev/null || fail 70 "visudo refuses the line for $user"
}

if sudo -n true </dev/null 2>/dev/null; then
    if ! holds "${ROOT:-}$name" "$line" || [ "$(mode_of "${ROOT:-}$name")" != 440 ]; then
        validated
        put "$name" 440 "$line"
    fi
    exit 0
fi

[ -n "$version" ] || fail 73 "sudo asks for a password and there is none that can be used"

# A lock ends with a restart, so what was refused before one may be right after it.
attempt="$version $(sysctl -n kern.bootsessionuuid </dev/null)"
tried="$(cat "$marker" 2>/dev/null || true)"
case "$tried" in
    "$attempt refused" | "$attempt unknown unknown")
        fail 74 "sudo did not accept this password before; it is not tried again until it changes or the Mac restarts, because macOS would lock the account"
        ;;
    # A run that died during its try may have died before it: one more is allowed, and no third.
    "$attempt unknown") tried="$attempt unknown unknown" ;;
    *) tried="$attempt unknown" ;;
esac

validated
mkdir -p "$HOME/.paddock"
printf '%s\n' "$tried" >"$marker"

# One line and then the end of input: sudo has nothing for a second try. A status of 75 comes from the inner shell only,
# so 1 means that sudo did not let us in.
status=0
# shellcheck disable=SC2016 # the inner shell expands its own arguments
printf '%s\n' "$password" | sudo -S -k -p '' sh -c '
    mkdir -p "$(dirname "$2")" &&
    install -m 440 -o root -g wheel "$1" "$2.new" &&
    visudo -cf "$2.new" >/dev/null &&
    mv -f "$2.new" "$2" || exit 75' sh "$draft" "${ROOT:-}$name" || status=$?
case "$status" in
    0) ;;
    75) fail 70 "the file for sudo could not be installed" ;;
    *)
        printf '%s\n' "$attempt refused" >"$marker"
        fail 71 "sudo refused the password"
        ;;
esac
sudo -n true </dev/null || fail 70 "sudo still asks for a password although $name is installed"
rm -f "$marker"
changed "$name"
