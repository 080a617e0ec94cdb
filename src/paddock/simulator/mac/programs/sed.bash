#!/bin/bash
# sed as BSD has it: -i takes its suffix as the next argument, and '' means no copy.
export PATH="${MAC_PATH}"
case "${OSTYPE}" in darwin*) exec sed "$@" ;; esac
arguments=()
while (($#)); do
  case "$1" in
    -i)
      if (($# < 2)) || [[ -n $2 ]]; then
        echo "sed: this stand-in knows -i '' only" >&2
        exit 1
      fi
      arguments+=('-i')
      shift
      ;;
    -i?*)
      echo "sed: -i takes its suffix as a separate argument on a Mac; write -i ''" >&2
      exit 1
      ;;
    -r) echo 'sed: illegal option -- r' >&2; exit 1 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
exec sed ${arguments[@]+"${arguments[@]}"}
