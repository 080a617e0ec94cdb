"""A Mac to practise on: a real SSH server, a real bash, and stand-ins of the macOS tools over one Mac's state.

A script that runs here is the script that runs on a Mac, byte for byte, in a real shell. What differs is where `/` is and
who answers to `pfctl`. So every script keeps three rules, which cost nothing on a real Mac:

- A path of the Mac is written `"${ROOT:-}/etc/pf.conf"`. `ROOT` is unset on a Mac and names the simulated disk here. `$HOME`,
  `$TMPDIR` and `mktemp` already point there. Inside files (property lists, sudoers, rulesets) paths have no prefix.
- Tools are called by their bare names, because the stand-ins come first on the PATH. What has no stand-in is the tool of the
  machine that runs the simulation, so only flags that BSD and GNU share are used with it.
- What belongs to root is written through sudo. The simulation runs in one account, so it cannot refuse a write; it looks at
  the disk before and after each sudo and at the end, and lets a script fail that wrote without it (`mac.violations`).

Not simulated: who may *read* a file, `sudo` tickets, interactive sessions, and any program that is not named in `tools`.

`mac.effects` lists every command with an effect and every file that changed, so that a test can state that a second run
changes nothing. What a reboot clears (packet filter, jobs, sessions, count of wrong passwords, a wedged sshd) and what only a
reinstall clears (the disk, its host key, its users) are kept apart as on a real Mac.
"""

from paddock.simulator.mac.calls import Effect
from paddock.simulator.mac.in_process import InProcessSsh
from paddock.simulator.mac.mac import SimulatedMac
from paddock.simulator.mac.network import Fleet, SimulatedNetwork
from paddock.simulator.mac.pace import Pace
from paddock.simulator.mac.scenarios import BREAKAGES, Breakage
from paddock.simulator.mac.settings import MacSettings
from paddock.simulator.mac.stand_ins import StandIns

__all__ = [
    "BREAKAGES",
    "Breakage",
    "Effect",
    "Fleet",
    "InProcessSsh",
    "MacSettings",
    "Pace",
    "SimulatedMac",
    "SimulatedNetwork",
    "StandIns",
]
