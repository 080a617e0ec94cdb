# shellcheck shell=bash
# A volume with a quota for what virtual machines write to the host. Arguments: NAME MEGABYTES USER.
# Without it a guest that writes and writes fills the host's disk, and with it every other machine's.
name="$1"
megabytes="$2"
user="$3"
record="/usr/local/share/paddock/vm-shares/$name"
place="${ROOT:-}/Volumes/$name"

if ! diskutil info "$name" >/dev/null 2>&1 </dev/null; then
    container="$(diskutil info -plist / </dev/null | plutil -extract APFSContainerReference raw -o - - 2>/dev/null || true)"
    [ -n "$container" ] || fail 70 "the disk of this host is no APFS container, so that no volume can have a quota"
    # The record first: a run that dies in between adds the volume the next time, or finds nothing to remove. A volume of
    # this name without a record is somebody else's: it is used, and never removed.
    put "$record" 644 "$megabytes"
    as_root diskutil apfs addVolume "$container" APFS "$name" -quota "${megabytes}m" >/dev/null
    changed "volume $name of at most $megabytes MB"
fi
if ! as_root test -d "$place"; then
    as_root diskutil mount "$name" >/dev/null
    changed "mounted $name"
fi
# Where macOS ignores owners, everybody owns everything on a volume.
if [ "$(diskutil info -plist "$name" </dev/null | plutil -extract GlobalPermissionsEnabled raw -o - - 2>/dev/null || true)" != true ]; then
    as_root diskutil enableOwnership "$name" >/dev/null
    changed "owners count on $name"
fi
if [ "$(as_root stat -f %Su "$place")" != "$user" ]; then
    as_root chown "$user" "$place"
    changed "$name belongs to $user"
fi
if [ "$(mode_of "$place")" != 700 ]; then
    as_root chmod 700 "$place"
    changed "only $user enters $name"
fi
sudo -n -u "$user" test -w "$place" </dev/null || fail 70 "$user cannot write to $place: is it mounted read-only?"
# Nobody searches for what machines write there.
if ! as_root test -e "$place/.metadata_never_index"; then
    as_root touch "$place/.metadata_never_index"
    changed "Spotlight leaves $name out"
fi
if as_root test -e "${ROOT:-}$record" && ! holds "${ROOT:-}$record" "$megabytes"; then
    note "$name keeps its quota of $(as_root cat "${ROOT:-}$record") MB until the next reinstall: macOS changes none under files"
fi
