# shellcheck shell=bash
# A host that sleeps is a host that is gone.
# Read first, so that a pmset that fails is a failure, and not a host that needs nothing.
settings="$(pmset -g custom </dev/null)"
if printf '%s\n' "$settings" | awk '$1 ~ /^(sleep|displaysleep|disksleep)$/ && $2 != 0 { found = 1 } END { exit !found }'; then
    as_root pmset -a sleep 0 displaysleep 0 disksleep 0
    changed "idle sleep"
fi
for key in idleTime askForPassword; do
    if [ "$(defaults read com.apple.screensaver "$key" 2>/dev/null </dev/null || true)" != 0 ]; then
        defaults write com.apple.screensaver "$key" -int 0 </dev/null
        changed "screensaver $key"
    fi
done
globals="${ROOT:-}/Library/Preferences/.GlobalPreferences"
if [ "$(as_root defaults read "$globals" com.apple.autologout.AutoLogOutDelay 2>/dev/null || true)" != 0 ]; then
    as_root defaults write "$globals" com.apple.autologout.AutoLogOutDelay -int 0
    changed "automatic logout"
fi
