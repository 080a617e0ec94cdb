# shellcheck shell=bash
# A fleet without the volume for shares. Only volumes that we made are removed, and only empty ones: what is in one
# belongs to a machine that still runs.
folder="${ROOT:-}/usr/local/share/paddock/vm-shares"
keep="${1:-}"
for name in $(as_root ls "$folder" 2>/dev/null || true); do
    if [ "$name" = "$keep" ]; then
        continue
    fi
    if diskutil info "$name" >/dev/null 2>&1 </dev/null; then
        if [ -n "$(as_root ls "${ROOT:-}/Volumes/$name" 2>/dev/null || true)" ]; then
            note "the volume $name is no longer wanted, and stays as long as machines have shares on it"
            continue
        fi
        as_root diskutil apfs deleteVolume "$name" >/dev/null
        changed "removed the volume $name"
    fi
    absent "/usr/local/share/paddock/vm-shares/$name"
done
