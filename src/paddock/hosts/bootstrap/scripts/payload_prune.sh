# shellcheck shell=bash
# Removes every version of a tarball but the current one. Arguments: INSTALL_TO.
# Called once what runs was seen to be the current version; what an interrupted install left goes, too.
target="${ROOT:-}$1"
current="$(as_root readlink "$target/current" 2>/dev/null || true)"
# Without the link this was unpacked before there were versions, and is all in use.
if [ -z "$current" ] || ! as_root test -d "$target/$current"; then
    exit 0
fi
for entry in $(as_root ls -A "$target"); do
    if [ "$entry" != current ] && [ "$entry" != "$current" ]; then
        as_root rm -rf "$target/$entry"
        changed "removed $1/$entry"
    fi
done
