#!/bin/sh
# Runs one `tart run` in a session of its own and records how it ended, so that a restarted agent learns it.
#   vm-wrapper.sh FOLDER ATTEMPT COMMAND...
# The folder run.ATTEMPT is made first, and only once: whoever starts the same attempt again starts nothing.
folder=$1 attempt=$2
shift 2
mkdir "$folder/run.$attempt" 2>/dev/null || exit 0
trap '' HUP INT TERM
printf '%s %s\n' "$$" "$(LC_ALL=C ps -o lstart= -p "$$")" >"$folder/.wrapper" && mv -f "$folder/.wrapper" "$folder/wrapper"
# The wrapper ignores signals, Tart must not: `tart stop` is a SIGINT.
(trap - HUP INT TERM && exec "$@") >"$folder/console.log" 2>&1 </dev/null
code=$?
# On a full disk the agent must still see that the run ended: the wrapper is gone, and no process runs.
printf '%s %s\n' "$code" "$(date +%s)" >"$folder/.exit" && mv -f "$folder/.exit" "$folder/exit"
