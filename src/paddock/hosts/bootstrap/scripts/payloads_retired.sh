# shellcheck shell=bash
# Removes what an earlier configuration installed and this one no longer names. Arguments: the names to keep.
folder="${ROOT:-}/usr/local/share/paddock/payloads"
for record in $(as_root ls "$folder" 2>/dev/null || true); do
    # What `put` had begun to write when it died: what it says may be cut off anywhere, so nothing is removed because of it.
    case "$record" in *.new)
        as_root rm -f "$folder/$record"
        continue
        ;;
    esac
    kept=no
    for name in "$@"; do
        if [ "$name" = "$record" ]; then
            kept=yes
        fi
    done
    if [ "$kept" = yes ]; then
        continue
    fi
    of() { as_root sed -n "s/^$1 //p" "$folder/$record"; }
    # What running machines depend on goes with the next wipe of the disk, not from under them.
    if [ -n "$(of needed-by-vms)" ]; then
        continue
    fi
    label="$(of job)"
    if [ -n "$label" ]; then
        unload_job "$label"
        absent "/Library/LaunchDaemons/$label.plist" "/usr/local/share/paddock/jobs/$label"
    fi
    command="$(of command)"
    if [ -n "$command" ]; then
        absent "$command"
    fi
    absent "$(of install-to)" "/usr/local/share/paddock/payloads/$record"
done
