"""A simulated Mac: a disk that a reinstall replaces, a state that a reboot clears, and an SSH server in front of both."""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from paddock.base.clock import Clock, SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.ssh import KeyPair, Ssh, Target, fingerprint, new_key_pair, public_key_of
from paddock.simulator.mac import login
from paddock.simulator.mac.calls import Effect, Log, ToolCall, ToolResult, fail
from paddock.simulator.mac.disk import Disk
from paddock.simulator.mac.execution import CommandExecution
from paddock.simulator.mac.in_process import InProcessSsh
from paddock.simulator.mac.interface import Tool
from paddock.simulator.mac.launchd import JobKeeper, Launchd, LoadedJob
from paddock.simulator.mac.pf import PacketFilter
from paddock.simulator.mac.scenarios import Scenarios
from paddock.simulator.mac.settings import MacSettings
from paddock.simulator.mac.sshd import Sshd
from paddock.simulator.mac.stand_ins import StandIns

__all__ = ["SimulatedMac"]

_PASSWORD_LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # noqa: S105 - an alphabet


class SimulatedMac(Scenarios):
    """One Mac. Use it as an asynchronous context manager, or let a `Fleet` own it.

    `reboot`, `reinstall`, `power_off` and `power_on` are immediate and synchronous, so that the simulated cloud can call
    them from its hooks; commands that run at that moment end without a status, as when a real Mac goes down. The disk is
    made at the first use, and so is the listener: a Mac that no client dials costs nothing.
    """

    def __init__(
        self,
        *,
        name: str = "mac",
        clock: Clock | None = None,
        rng: random.Random | None = None,
        settings: MacSettings | None = None,
        folder: Path | None = None,
        stand_ins: StandIns | None = None,
    ) -> None:
        settings = settings or MacSettings()
        self.name = name
        self.clock: Clock = clock or SystemClock()
        self.rng = rng or seeded(name)
        self.username = settings.username
        self.address = settings.address
        self.pace = settings.pace
        self.lock_after = settings.lock_after
        self.display = settings.display
        self.token = f"{self.rng.getrandbits(128):032x}"
        self.effects: list[Effect] = Log(settings.records)
        self.calls: list[ToolCall] = Log(settings.records)
        self.commands: list[str] = Log(settings.records)
        self.violations: list[str] = Log(settings.records)
        self.downloads: dict[str, bytes] = {}
        self.running: dict[str, CommandExecution] = {}
        self.boots = 1
        self.install = settings.install
        self.powered = True
        self.simulated_seconds = 0.0
        self.broken: str | None = None
        self.product_version = "26.3"
        self.open_ports: set[str] = set()
        self._password = settings.password or self._new_password()
        self._keys = list(settings.keys)
        self._own_folder = folder is None
        self._folder = folder
        self._own_stand_ins = stand_ins is None
        self._stand_ins = stand_ins or StandIns()
        self._disk: Disk | None = None
        self._host_key: KeyPair | None = None
        self._sessions = 0
        self._open_sessions: set[str] = set()
        self.commands_as_root: Counter[str] = Counter()
        self._chores: set[asyncio.Task[None]] = set()
        self.on_power_off: list[Callable[[], None]] = []
        """Told when it gets dark: what runs on this Mac beside its commands ends there and then."""
        self.job_keeper: JobKeeper | None = None
        self.on_session_end: list[Callable[[], None]] = []
        self.virtual_machines: Callable[[], int] = lambda: 0
        """How many run on this Mac now."""
        self.sshd = Sshd(self)
        self._fresh_state()

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen for SSH connections on a port of loopback."""
        await self._stand_ins.start()
        self._stand_ins.register(self)
        _ = self.host_key_pair  # the disk and the key exist before anybody can ask for them
        self.sshd.start()

    async def stop(self) -> None:
        """End everything that runs on this Mac and throw its disk away, unless the folder was given."""
        self._end_everything()
        self.sshd.stop()
        await self.sshd.stopped()
        await asyncio.gather(*self._chores, return_exceptions=True)
        self._stand_ins.unregister(self)
        if self._own_stand_ins:
            await self._stand_ins.stop()
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder, self._disk = None, None

    def reboot(self) -> None:
        """Down and up again: processes, packet filter, count of wrong passwords and a wedged sshd are gone; files stay."""
        self.power_off()
        self.power_on()

    def reinstall(self, *, password: str | None = None, keys: Sequence[str] | None = None) -> None:
        """An empty disk, a new host key, a new password, and the keys the project has now."""
        self.power_off()
        self.wipe(password=password or self._new_password(), keys=self._keys if keys is None else keys)
        self.power_on()

    def wipe(self, *, password: str, keys: Sequence[str], install: int | None = None) -> None:
        """What a reinstall does to a Mac that is dark: it comes up with an empty disk and a new host key."""
        self._password, self._keys = password, list(keys)
        self._disk, self._host_key, self.broken = None, None, None
        self.install = self.install + 1 if install is None else install

    def power_off(self) -> None:
        """Dark: what ran is gone without a trace, and the Mac does not answer."""
        self.powered = False
        self._end_everything()
        for told in list(self.on_power_off):
            told()
        self.sshd.become("timeout")

    def power_on(self) -> None:
        if self.powered:
            return
        self.powered = True
        self.boots += 1
        self._fresh_state()
        self.sshd.become("up")
        if self._disk is not None:
            self._boot()

    def _fresh_state(self) -> None:
        self.pf = PacketFilter()
        self.launchd = Launchd(self)
        self.wrong_passwords: dict[str, int] = {}
        self.session_user: str | None = None
        self.session_number = 0
        self.session_creator = ""

    def _boot(self) -> None:
        self.pf.load_at_boot(self.disk)
        if self.display:
            self.log_in()
        self.launchd.boot()
        self.disk.look()  # what the boot itself wrote is no command's effect

    def _end_everything(self) -> None:
        for execution in list(self.running.values()):
            execution.kill(down=True)
        for chore in self._chores:
            chore.cancel()
        self.sshd.drop_connections()

    # What it is made of

    @property
    def disk(self) -> Disk:
        if self._disk is None:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix=f"paddock-{self.name}-"))
            self._folder.mkdir(parents=True, exist_ok=True)
            # Without links in it, so that paths of the shells compare equal to ours.
            folder = self._folder.resolve()
            self._disk = Disk.restored(folder, self.install)
            if self._disk is None:
                self._disk = Disk.installed(folder, self.username, self._password, self._keys, install=self.install)
            self._boot()
        return self._disk

    @property
    def host_key_pair(self) -> KeyPair:
        """Made at the first boot of an install, and kept on its disk."""
        if self._host_key is None:
            place = self.disk.at("/etc/ssh/ssh_host_ed25519_key")
            if not place.is_file():
                place.write_text(new_key_pair(self.name).private.reveal())
                place.chmod(0o600)
                self.disk.look()
            private = Secret(place.read_text())
            self._host_key = KeyPair(private, public_key_of(private, self.name))
        return self._host_key

    @property
    def host_key(self) -> str:
        """The fingerprint this install shows."""
        return fingerprint(self.host_key_pair.public)

    @property
    def password(self) -> str:
        return self.disk.users[self.username].password

    @property
    def session(self) -> Literal["Aqua"] | None:
        """The user's graphical session, without which no virtual machine starts."""
        return "Aqua" if self.session_user == self.username else None

    @property
    def hostname(self) -> str:
        return self.disk.names.get("HostName", f"{self.name}.local")

    @property
    def locked(self) -> bool:
        return self.wrong_passwords.get(self.username, 0) >= self.lock_after

    def uid(self, user: str) -> int:
        known = self.disk.users.get(user)
        return -2 if known is None else known.uid

    def _new_password(self) -> str:
        return "".join(self.rng.choice(_PASSWORD_LETTERS) for _ in range(13))

    # How to reach it

    def target(self, private_key: Secret, *, host_key: str | None = None) -> Target:
        """Where a client finds this Mac on loopback; it must be started."""
        return Target("127.0.0.1", self.sshd.port, self.username, private_key, host_key)

    def ssh(self) -> Ssh:
        """A client without a wire: the same contract, the same shell, the same errors, no socket in between."""
        return InProcessSsh(lambda _address, _port: self)

    def admits(self, username: str, public_key: str) -> bool:
        """Whether sshd lets this key in: it reads both files at each login."""
        if username != self.username:
            return False
        wanted = public_key.split()[:2]
        folder = self.disk.at(f"/Users/{self.username}/.ssh")
        for name in ("authorized_keys", "scw_authorized_keys"):
            place = folder / name
            lines = place.read_text(errors="replace").splitlines() if place.is_file() else []
            if any(line.split()[:2] == wanted for line in lines if not line.startswith("#")):
                return True
        return False

    # What a test looks at

    def job(self, label: str, domain: str = "system") -> LoadedJob | None:
        return self.launchd.job(label, domain)

    async def settled(self) -> None:
        """Wait until the jobs that a boot or a script started have done their work."""
        while self._chores:
            await asyncio.gather(*self._chores, return_exceptions=True)

    # What the machinery calls

    async def environment(self, user: str, session: str) -> dict[str, str]:
        await self._stand_ins.start()
        self._stand_ins.register(self)
        return self._stand_ins.environment(self, user, session)

    def new_session(self) -> str:
        self._sessions += 1
        session = f"{self.boots}.{self._sessions}"
        self._open_sessions.add(session)
        return session

    def close_session(self, execution: CommandExecution) -> None:
        """The command has ended, one way or the other."""
        self._open_sessions.discard(execution.session)
        self.running.pop(execution.session, None)
        if not execution.down:
            self.files_changed_by(execution.session, execution.user)
            self.disk.remember()
        del self.commands_as_root[execution.session]

    async def pause(self, seconds: float) -> None:
        """Let that much of the Mac's time pass; `pace.speed` says how much of ours that is."""
        if seconds > 0:
            self.simulated_seconds += seconds
            await self.clock.sleep(seconds / self.pace.speed)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something when that much of the Mac's time has passed, unless it goes dark before."""
        boots = self.boots

        def due() -> None:
            if self.powered and self.boots == boots:
                what()

        # No task of its own: a reboot ends all of those, and this one would end itself.
        asyncio.get_running_loop().call_later(seconds / self.pace.speed, due)

    async def called(self, call: ToolCall, tool: Tool) -> ToolResult:
        """Answer one call of a stand-in."""
        if call.session not in self._open_sessions:
            return fail(255, f"{call.tool}: this shell has ended")
        if call.tool != "sudo":
            self.calls.append(call)
        await self.pause(self.pace.of(call.tool, call.arguments))
        return await tool(self, call)

    def effect(self, call: ToolCall) -> None:
        self.effects.append(Effect(call.user, self._tidy(call.line)))

    def _tidy(self, line: str) -> str:
        return line.replace(str(self.disk.root), "")

    def files_changed_by(self, session: str, user: str) -> None:
        """Look at the disk: whatever changed since the last look was done by that user in that session, unless a command
        runs under sudo just now or was killed under it; then it cannot be told, and root may have done it.
        """
        if self.commands_as_root.total() > 0:
            user = "root"
        outputs = self._outputs_of_jobs()
        for change in self.disk.look(user):
            if change.path in outputs:
                continue
            self.effects.append(Effect(user, f"{change.what} {change.path}"))
            if user != "root" and not self.disk.free_for(change.path, user):
                self.violations.append(f"{user} {change.what} {change.path} without sudo")
                if (execution := self.running.get(session)) is not None:
                    execution.denied.append(change.path)

    def _outputs_of_jobs(self) -> frozenset[str]:
        """What jobs that run for real write to whenever they like, through files that launchd opened for them."""
        if self.job_keeper is None:
            return frozenset()
        keys = ("StandardOutPath", "StandardErrorPath")
        kept = [job.settings for job in self.launchd.jobs.values() if job.kept_alive]
        return frozenset(str(settings[key]) for settings in kept for key in keys if key in settings)

    def check_password(self, user: str, password: str) -> bool:
        """Whether this is the password; wrong ones count, and a locked account refuses even the right one."""
        account = self.disk.users.get(user)
        pass_report = self.wrong_passwords.get(user, 0)
        if account is not None and pass_report < self.lock_after and account.password == password:
            self.wrong_passwords[user] = 0
            return True
        self.wrong_passwords[user] = pass_report + 1
        return False

    def kick_loginwindow(self) -> None:
        """End the graphical session and everything in it, and log in again as far as auto-login works."""
        self.end_graphical_session()
        self.log_in()

    def end_graphical_session(self) -> None:
        """Everything that ran in it goes, whatever it is."""
        self.session_user = None
        self.launchd.end_session()
        for told in list(self.on_session_end):
            told()

    def log_in(self) -> None:
        """What a new loginwindow does: another session each time."""
        self.session_user = login.log_in(self.disk)
        self.session_number += 1
        loginwindow = self.launchd.job("com.apple.loginwindow")
        self.session_creator = f"loginwindow[{(loginwindow and loginwindow.pid) or 0}]"
        self.disk.look()

    def chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background that ends with the Mac. Without a running loop it is not done."""
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            work.close()
            return
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
