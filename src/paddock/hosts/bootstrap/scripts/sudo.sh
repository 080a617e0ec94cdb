# shellcheck shell=bash
# Passwordless sudo for the login user. Arguments: USER VERSION. Secret, only if VERSION is not empty: the password.
# A wrong password is worse than none: macOS locks the account after a few. So a password is tried once for each boot,
# and the try is written down before it happens, where the next operator finds it even if this one dies now.
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

boot="$(sysctl -n kern.boottime 2>/dev/null </dev/null | tr -dc '0-9 ' | awk '{ print $1 }' || true)"
attempt="$version $boot"
if [ -f "$marker" ] && [ "$(cat "$marker")" = "$attempt" ]; then
    fail 74 "this password was refused before since the Mac started; it is not tried again, because macOS would lock the account"
fi

validated
mkdir -p "$HOME/.paddock"
printf '%s\n' "$attempt" >"$marker"

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
    *) fail 71 "sudo refused the password" ;;
esac
sudo -n true </dev/null || fail 70 "sudo still asks for a password although $name is installed"
rm -f "$marker"
changed "$name"
