#!/bin/bash
# One program under many names: it hands its name and arguments to the simulated Mac and does what the Mac answers.
# Only builtins are used in the common case, because a bootstrap runs hundreds of these.
exec 3<>"/dev/tcp/127.0.0.1/${MAC_PORT}" || exit 127
printf '%s\0' "${MAC_TOKEN}" "${MAC_SESSION}" "${0##*/}" "${MAC_USER}" "${PWD}" "$#" "$@" >&3
while IFS= read -r line <&3; do
  case "${line}" in
    o*) printf '%s\n' "${line:1}" ;;
    O*) printf '%s' "${line:1}" ;;
    e*) printf '%s\n' "${line:1}" >&2 ;;
    # The Mac asks for our standard input: base64, because a shell cannot close one direction of a connection.
    i) { PATH="${MAC_PATH}" base64 | PATH="${MAC_PATH}" tr -d '\n'; printf '\n'; } >&3 ;;
    x*) exit "${line:1}" ;;
  esac
done
echo "${0##*/}: the host is going down" >&2
exit 255
