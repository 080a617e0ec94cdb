"""Cleans up after a test run that died without cleaning up itself.

Run as a program by `supervision.Supervisor`, never imported. It reads orders from
standard input, one a line: `watch PGID`, `forget PGID`, `folder PATH`, `dismissed`.
The other end of that pipe is held by the test run alone, so end of file means the test
run is gone, whatever ended it (a kill signal included). Unless it was dismissed before,
the guard then kills every process group still watched and deletes every named folder.

Only the standard library, and no signal tied to the parent's death: this works the
same on Linux and macOS.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys


def main() -> None:
    # An interrupt typed at the terminal is for the test run, which needs its guard
    # most while it unwinds.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups: list[int] = []
    folders: list[str] = []
    for line in sys.stdin:
        order, _, value = line.rstrip("\n").partition(" ")
        if order == "watch":
            groups.append(int(value))
        elif order == "forget":
            groups.remove(int(value))
        elif order == "folder":
            folders.append(value)
        elif order == "dismissed":
            return
    for group in reversed(groups):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
