"""Every macOS tool that has a stand-in, by its name."""

from collections.abc import Mapping

from paddock.simulator.mac import accounts, agent_tools, files, machine, network_tools, preferences, processes, volumes
from paddock.simulator.mac.interface import Tool
from paddock.simulator.mac.launchctl import launchctl
from paddock.simulator.mac.pfctl import pfctl
from paddock.simulator.mac.sudo import sudo, visudo

__all__ = ["TOOLS"]

TOOLS: Mapping[str, Tool] = {
    "sudo": sudo,
    "visudo": visudo,
    "pfctl": pfctl,
    "launchctl": launchctl,
    "chgrp": files.chgrp,
    "chown": files.chown,
    "codesign": files.codesign,
    "ditto": files.ditto,
    "install": files.install,
    "md5": files.md5,
    "shasum": files.shasum,
    "stat": files.stat,
    "defaults": preferences.defaults,
    "plutil": preferences.plutil,
    "pmset": preferences.pmset,
    "scutil": preferences.scutil,
    "diskutil": volumes.diskutil,
    "newsyslog": volumes.newsyslog,
    "dscl": accounts.dscl,
    "fdesetup": accounts.fdesetup,
    "groups": accounts.groups,
    "sysadminctl": accounts.sysadminctl,
    "id": accounts.identity,
    "whoami": accounts.whoami,
    "hostname": machine.hostname,
    "reboot": machine.reboot,
    "shutdown": machine.shutdown,
    "sleep": machine.sleep,
    "sw_vers": machine.sw_vers,
    "sysctl": machine.sysctl,
    "uname": machine.uname,
    "kill": processes.kill,
    "killall": processes.killall,
    "pgrep": processes.pgrep,
    "pkill": processes.pkill,
    "ps": processes.ps,
    "curl": network_tools.curl,
    "ifconfig": network_tools.ifconfig,
    "ipconfig": network_tools.ipconfig,
    "nc": network_tools.nc,
    "route": network_tools.route,
    "paddock-take-key": agent_tools.paddock_take_key,
    # Nothing that we look at depends on these; they are there so that a script may call them.
    **dict.fromkeys(
        ("chflags", "csrutil", "dscacheutil", "mdutil", "security", "spctl", "systemsetup", "xattr"), machine.nothing
    ),
}
