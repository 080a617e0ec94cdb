# shellcheck shell=bash
# A host that sleeps is a host that is gone, and so is one that macOS restarts by itself to update it.
# Read first, so that a pmset that fails is a failure, and not a host that needs nothing.
settings="$(pmset -g custom </dev/null)"
if printf '%s\n' "$settings" | awk '$1 ~ /^(sleep|displaysleep|disksleep)$/ && $2 != 0 { found = 1 } END { exit !found }'; then
    as_root pmset -a sleep 0 displaysleep 0 disksleep 0
    changed "idle sleep"
fi
if ! printf '%s\n' "$settings" | awk '$1 == "autorestart" && $2 == 1 { found = 1 } END { exit !found }'; then
    as_root pmset -a autorestart 1
    changed "restart after a power failure"
fi
# The user's screen saver is set for this Mac alone, and the login window has its own.
if [ "$(defaults -currentHost read com.apple.screensaver idleTime 2>/dev/null </dev/null || true)" != 0 ]; then
    defaults -currentHost write com.apple.screensaver idleTime -int 0 </dev/null
    changed "screensaver idleTime"
fi
saver="${ROOT:-}/Library/Preferences/com.apple.screensaver"
if [ "$(as_root defaults read "$saver" loginWindowIdleTime 2>/dev/null || true)" != 0 ]; then
    as_root defaults write "$saver" loginWindowIdleTime -int 0
    changed "screensaver loginWindowIdleTime"
fi
updates="${ROOT:-}/Library/Preferences/com.apple.SoftwareUpdate"
for key in AutomaticDownload AutomaticallyInstallMacOSUpdates CriticalUpdateInstall; do
    if [ "$(as_root defaults read "$updates" "$key" 2>/dev/null || true)" != 0 ]; then
        as_root defaults write "$updates" "$key" -bool false
        changed "software update $key"
    fi
done
# Nobody searches for what Tart keeps.
if [ ! -e "$HOME/.tart/.metadata_never_index" ]; then
    mkdir -p "$HOME/.tart"
    touch "$HOME/.tart/.metadata_never_index"
    changed "Spotlight leaves .tart out"
fi
globals="${ROOT:-}/Library/Preferences/.GlobalPreferences"
if [ "$(as_root defaults read "$globals" com.apple.autologout.AutoLogOutDelay 2>/dev/null || true)" != 0 ]; then
    as_root defaults write "$globals" com.apple.autologout.AutoLogOutDelay -int 0
    changed "automatic logout"
fi
