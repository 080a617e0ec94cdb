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
    curl -f -s -S -L --retry 3 -o "$staging/payload" "$url" </dev/null ||
        fail 77 "$name could not be downloaded"
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
        # Each version has a folder of its own, and `current` names the one that starts next: it always names a whole
        # one, whenever this dies. The version that runs stays until payload_prune has seen the new one work.
        version="$(printf '%.16s' "$expected")"
        as_root mkdir -p "$target"
        as_root rm -rf "$target/$version.new" "$target/$version.old" "$target/.current.new"
        as_root mkdir "$target/$version.new"
        as_root tar --no-same-owner -xf "$staging/payload" -C "$target/$version.new"
        if as_root test -e "$target/$version"; then
            as_root mv "$target/$version" "$target/$version.old"
        fi
        as_root mv "$target/$version.new" "$target/$version"
        as_root ln -s "$version" "$target/.current.new"
        # By rename, and not into the folder that the old link leads to: -h says so to macOS, -T to GNU.
        as_root mv -fh "$target/.current.new" "$target/current" 2>/dev/null ||
            as_root mv -fT "$target/.current.new" "$target/current"
        program="current/$program"
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
