# shellcheck shell=bash
# Automatic login, because virtual machines need a console session. Arguments: USER SEALED (hex of the encoded marker).
# Secrets: /etc/kcpassword in base64; the password.
user="$1"
sealed="$2"
IFS= read -r encoded
IFS= read -r password

# Such a Mac asks for a password at its next start, before anybody can log in over the network: none may come.
if fdesetup status </dev/null 2>/dev/null | mentions 'FileVault is On'; then
    fail 76 "FileVault is on, so that this Mac is lost at its next start: run sudo fdesetup disable on it, or release it"
fi

file=/etc/kcpassword
domain="${ROOT:-}/Library/Preferences/com.apple.loginwindow"
touched=0

is_sealed() {
    local start
    start="$(as_root head -c "$((${#sealed} / 2))" "${ROOT:-}$file" | od -An -tx1 | tr -d ' \n')"
    [ "$start" = "$sealed" ] || as_root grep -q '^<sealed>' "${ROOT:-}$file"
}

put_secret "$file" root "$encoded"
[ "$PUT" = 0 ] || touched=1
if [ "$(as_root defaults read "$domain" autoLoginUser 2>/dev/null || true)" != "$user" ]; then
    as_root defaults write "$domain" autoLoginUser -string "$user"
    changed autoLoginUser
    touched=1
fi

# The kick ends every program of the console session, so it happens only where there is nothing to lose or to keep.
if [ "$touched" = 1 ] || [ -z "$(session_of "$user")" ]; then
    kick_loginwindow "$user" || note "no new console session of $user after 30 seconds"
fi

# macOS says nothing when the password is wrong: it puts its marker in the file, and every later start stays at the
# login window.
if is_sealed; then
    fail 72 "macOS replaced the password of automatic login by its sealed marker: the password is not the user's"
fi

# The password is the user's, as macOS has just shown. A screen that locks takes the keychain from the machines.
lock_is_off() { sysadminctl -screenLock status </dev/null 2>&1 | mentions 'screenLock is off'; }
if ! lock_is_off; then
    printf '%s\n' "$password" | sysadminctl -screenLock off -password - >/dev/null 2>&1 || true
    if lock_is_off; then
        changed "screen lock"
    else
        note "the screen may lock: sysadminctl did not turn that off"
    fi
fi
