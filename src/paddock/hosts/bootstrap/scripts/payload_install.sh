# shellcheck shell=bash
# Arguments: NAME RECORD(base64) INSTALL_TO SHA256 FORM COMMAND PROGRAM SIGN URL. Upload, unless there is a URL: the payload.
name="$1"
record="$(text "$2")"
target="${ROOT:-}$3"
expected="$4"
form="$5"
command="$6"
program="$7"
sign="$8"
url="$9"

staging="$(mktemp -d "${TMPDIR:-/tmp}/paddock.XXXXXX")"
trap 'rm -rf "$staging"' EXIT
if [ -n "$url" ]; then
    curl -f -s -S -L --retry 3 -o "$staging/payload" "$url" </dev/null
else
    cat >"$staging/payload"
fi
actual="$(shasum -a 256 "$staging/payload" | cut -d' ' -f1)"
[ "$actual" = "$expected" ] || fail 76 "the checksum of $name is $actual, not $expected"

as_root mkdir -p "$(dirname "$target")"
as_root rm -rf "$target.new" "$target.old"
case "$form" in
    file)
        as_root install -m 755 -o root -g wheel "$staging/payload" "$target.new"
        # A new file in the old one's place: the kernel kills a program whose signed pages were overwritten.
        as_root mv -f "$target.new" "$target"
        if [ "$sign" = yes ]; then
            as_root codesign --force --sign - "$target"
        fi
        as_installed="$(as_root shasum -a 256 "$target" | cut -d' ' -f1)"
        ;;
    tarball)
        as_root mkdir -p "$target.new"
        as_root tar -xf "$staging/payload" -C "$target.new"
        if as_root test -e "$target"; then
            as_root mv "$target" "$target.old"
        fi
        as_root mv "$target.new" "$target"
        as_root rm -rf "$target.old"
        as_installed=folder
        ;;
    *) fail 70 "unknown form $form" ;;
esac
if [ -n "$command" ]; then
    as_root test -x "$target/$program" || fail 70 "$name holds no program $program"
    put "$command" 755 "#!/bin/sh
exec \"\${ROOT:-}$3/$program\" \"\$@\""
fi
changed "$name"
put "/usr/local/share/paddock/payloads/$name" 644 "$record
as-installed $as_installed"
