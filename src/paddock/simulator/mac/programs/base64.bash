#!/bin/bash
# base64 as a Mac has it: -D or -d decodes, -i names the input, and lines are not broken unless -b says so.
export PATH="${MAC_PATH}"
decode='' input=''
while (($#)); do
  case "$1" in
    -D | -d | --decode) decode='yes' ;;
    -i) input="${2-}"; shift ;;
    -w*) echo 'base64: invalid option -- w' >&2; exit 64 ;;
    -*) echo "base64: invalid option $1" >&2; exit 64 ;;
    *) echo "base64: invalid argument $1" >&2; exit 64 ;;
  esac
  shift
done
[[ -z ${input} || ${input} == '-' ]] || exec <"${input}"
if [[ -n ${decode} ]]; then exec base64 -d; fi
base64 | tr -d '\n'
printf '\n'
