"""The states in which Macs were found, as one call each."""

import random
from abc import ABC
from collections.abc import Sequence
from typing import Literal

from paddock.base.secrets import SEALED
from paddock.simulator.mac import login
from paddock.simulator.mac.contents import Contents
from paddock.simulator.mac.pf import PacketFilter, Table
from paddock.simulator.mac.sshd import Sshd, SshdMode

__all__ = ["BREAKAGES", "Breakage", "Scenarios"]

Breakage = Literal["hang", "refuse", "timeout", "stale_keys", "no_key", "locked", "sealed", "tables"]
BREAKAGES: tuple[Breakage, ...] = ("hang", "refuse", "timeout", "stale_keys", "no_key", "locked", "sealed", "tables")

_FOREIGN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHJhbmRvbS1lYXJsaWVyLXRlbmFudC1rZXktMDAwMQ earlier-tenant"
_VM_TABLES = {
    "vm_sources": ["192.168.64.0/22"],
    "blocked_dst": ["10.0.0.0/8", "172.16.0.0/12", "169.254.0.0/16"],
}


class Scenarios(Contents, ABC):
    """What can be wrong with a Mac. `SimulatedMac` is one of these; each call takes effect at once."""

    username: str
    lock_after: int
    rng: random.Random
    pf: PacketFilter
    sshd: Sshd
    wrong_passwords: dict[str, int]
    session_user: str | None
    broken: str | None

    def persist_tables(
        self, scope: Literal["anchor", "main", "both"] = "anchor", *, anchor: str = "tuist.runners"
    ) -> None:
        """The tables of the egress rules persist, as earlier versions of the script left them."""
        _ = self.disk  # a fresh disk boots first, and would load over what we do here
        scopes = {"anchor": [anchor], "main": [""], "both": [anchor, ""]}[scope]
        for name in scopes:
            for table, addresses in _VM_TABLES.items():
                self.pf.anchor(name).tables[table] = Table(list(addresses), persist=True)

    def seal_password(self) -> None:
        """The auto-login password was replaced by the sealed marker, and no user is logged in."""
        place = self.disk.at(login.KCPASSWORD)
        place.write_bytes(login.encoded(SEALED))
        place.chmod(0o600)
        self.session_user = None
        self.disk.look()

    def lock_account(self) -> None:
        """Too many wrong passwords: no password helps until a reboot."""
        self.wrong_passwords[self.username] = self.lock_after

    def leave_stale_keys(self) -> None:
        """An earlier tenant's keys, in both files, and none of ours: only a reinstall helps."""
        self._write_keys("authorized_keys", f"{_FOREIGN}\n")
        self._write_keys("scw_authorized_keys", f"{_FOREIGN}\n")

    def forget_project_key(self) -> None:
        """Ordered before the fleet's key was registered: no project key was ever put there."""
        self._write_keys("scw_authorized_keys", "")

    def _write_keys(self, name: str, content: str) -> None:
        self.disk.at(f"/Users/{self.username}/.ssh/{name}").write_text(content)
        self.disk.look()

    def wedge_sshd(self, mode: SshdMode = "hang") -> None:
        """The sshd accepts and says nothing, refuses, or does not answer, until a reboot or its reload."""
        self.sshd.become(mode)

    def revive_sshd(self) -> None:
        """What reloading ssh.plist does to a wedged sshd."""
        self.sshd.become("up")

    def break_with(self, probability: float, kinds: Sequence[Breakage] = BREAKAGES) -> Breakage | None:
        """With that probability, put the Mac into one of the states above; says which."""
        if self.rng.random() >= probability:
            return None
        kind = self.rng.choice(list(kinds))
        match kind:
            case "hang" | "refuse" | "timeout":
                self.wedge_sshd(kind)
            case "stale_keys":
                self.leave_stale_keys()
            case "no_key":
                self.forget_project_key()
            case "locked":
                self.lock_account()
            case "sealed":
                self.seal_password()
            case "tables":
                self.persist_tables("both")
        self.broken = kind
        return kind
