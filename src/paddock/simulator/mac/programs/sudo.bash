#!/bin/bash
# sudo of a simulated Mac. Who may do what is decided by the Mac (its sudoers files, its tally of wrong passwords); this
# program reads passwords from standard input line by line, as the real one does with -S, and then runs the command.
stdin='' mode='tty' prompt='Password:' user='root' action='run'

usage() {
  echo 'usage: sudo [-nSkKvlHE] [-p prompt] [-u user] [VAR=value] [command [argument ...]]' >&2
  exit 1
}

while (($#)); do
  case "$1" in
    --) shift; break ;;
    --non-interactive) mode='never' ;;
    --stdin) stdin='yes' ;;
    --prompt=*) prompt="${1#*=}" ;;
    --user=*) user="${1#*=}" ;;
    -p) prompt="${2-}"; shift ;;
    -u) user="${2-}"; shift ;;
    --*) usage ;;
    -?*)
      flags="${1#-}"
      while [[ -n ${flags} ]]; do
        case "${flags:0:1}" in
          n) mode='never' ;;
          S) stdin='yes' ;;
          v) action='validate' ;;
          l) action='list' ;;
          k | K) action='forget' ;;
          H | E | b) ;;
          p) prompt="${2-}"; shift ;;
          u) user="${2-}"; shift ;;
          *) usage ;;
        esac
        flags="${flags:1}"
      done
      ;;
    [A-Za-z_]*=*) export "${1?}" ;;
    *) break ;;
  esac
  shift
done

if [[ ${action} == 'forget' && $# -eq 0 ]]; then exit 0; fi
if [[ ${action} == 'forget' ]]; then action='run'; fi
if [[ ${action} == 'run' && $# -eq 0 ]]; then usage; fi
if [[ -n ${stdin} && ${mode} == 'tty' ]]; then mode='stdin'; fi

# ask <question> <field>...: prints what the Mac says, and leaves its verdict in `verdict`.
ask() {
  local line
  verdict=1
  exec 3<>"/dev/tcp/127.0.0.1/${MAC_PORT}" || exit 127
  printf '%s\0' "${MAC_TOKEN}" "${MAC_SESSION}" 'sudo' "${MAC_USER}" "${PWD}" "$#" "$@" >&3
  while IFS= read -r line <&3; do
    case "${line}" in
      o*) printf '%s\n' "${line:1}" ;;
      e*) printf '%s\n' "${line:1}" >&2 ;;
      x*) verdict="${line:1}"; break ;;
    esac
  done
  exec 3>&-
}

ask may "${mode}" "${user}" "${action}" "$@"
tries=0
# 42 means: a password first.
while [[ ${verdict} -eq 42 ]]; do
  printf '%s' "${prompt}" >&2
  password=''
  # The real one treats an end of input without a newline as no password at all.
  if IFS= read -r password; then
    ask try "${user}" "${tries}" "${password}" "${action}"
  else
    ask none "${user}" "${tries}"
  fi
  tries=$((tries + 1))
done
[[ ${verdict} -eq 0 ]] || exit 1
[[ ${action} == 'run' ]] || exit 0

if ! program="$(type -P -- "$1")"; then
  echo "sudo: $1: command not found" >&2
  exit 1
fi
MAC_USER="${user}" "${program}" "${@:2}"
status=$?
ask done "${user}" "$@"
exit "${status}"
