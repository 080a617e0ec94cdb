"""The state machine of the Macs: orders, reboots, installs and deletions, computed from timestamps.

Nothing runs in the background. Every read and every change first settles what has fallen due, in the order of its
moments, so that a cloud that no client asked for a day shows the same history as one that was asked every second.
"""

import ipaddress
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.simulator.cloud.state import Activity, CloudState, Host, LateRequest

__all__ = ["Hardware"]

_PASSWORD_LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # noqa: S105 - an alphabet


class Hardware:
    """Owns the hosts. `on_reboot` is told when a Mac goes down for a reboot, `on_reinstall` when a new install boots,
    `on_power` whenever a Mac goes dark or comes up, `on_delete` when it is gone.

    Hooks are called from inside whatever call settles the change; they must return at once and not call back.
    """

    def __init__(self, state: CloudState, clock: Clock, rng: random.Random) -> None:
        self.state = state
        self.clock = clock
        self.rng = rng
        self.on_reboot: list[Callable[[Host], None]] = []
        self.on_reinstall: list[Callable[[Host], None]] = []
        self.on_power: list[Callable[[Host, bool], None]] = []
        self.on_delete: list[Callable[[Host], None]] = []
        self.replay: Callable[[LateRequest], None] = lambda _request: None

    # Time

    def delay(self, seconds: float) -> timedelta:
        return timedelta(seconds=seconds / self.state.behaviour.speed)

    def next_change(self) -> datetime | None:
        """When something will next happen by itself."""
        # Asked at every request: most hosts are at rest, and cost one look each.
        moments = [
            moment
            for host in self.state.hosts.values()
            if (host.activity is not None or host.deletion_scheduled) and (moment := _due_at(host)) is not None
        ]
        moments.extend(request.at for request in self.state.late)
        return min(moments, default=None)

    def settle(self) -> datetime:
        """Let everything happen that has fallen due; returns the present moment."""
        now = self.clock.now()
        while (moment := self.next_change()) is not None and moment <= now:
            for request in [request for request in self.state.late if request.at == moment]:
                self.state.late.remove(request)
                self.replay(request)
            for host in [host for host in self.state.hosts.values() if _due_at(host) == moment]:
                self._finish(host, moment)
        return now

    def _finish(self, host: Host, moment: datetime) -> None:
        if host.activity is None:
            self.remove(host)
            return
        finished, host.activity, host.activity_until = host.activity, None, None
        host.updated_at = moment
        host.boots += 1
        host.forced_status, host.next_status = host.next_status, ""
        if finished == "reinstalling":
            self._new_install(host, moment)
        if finished == "starting":
            host.delivered = True
            host.deletable_at = host.created_at + timedelta(seconds=self.state.behaviour.billing_floor)
        self.power(host, on=True)

    def _new_install(self, host: Host, moment: datetime) -> None:
        host.install += 1
        host.image, host.next_image = host.next_image or host.image, ""
        host.password = self.password()
        host.authorized_keys, host.next_authorized_keys = host.next_authorized_keys, []
        self.seal(host, moment, self.state.behaviour.sealed_after_reinstall)
        for hook in self.on_reinstall:
            hook(host)

    # Things that happen to a host

    def add(self, host: Host) -> Host:
        self.state.hosts[host.id] = host
        return host

    def start_order(self, host: Host, now: datetime) -> None:
        behaviour, default = self.state.behaviour, self.state.offers[host.type].default_image
        seconds = behaviour.order if host.image == default else behaviour.order_of_another_image
        self._begin(host, "starting", now, seconds)
        host.delivered = False
        host.authorized_keys = self.project_keys(host.project_id)

    def start_reboot(self, host: Host, now: datetime) -> None:
        self._begin(host, "rebooting", now, self.state.behaviour.reboot)
        self.seal(host, now, self.state.behaviour.sealed_after_reboot)
        for hook in self.on_reboot:
            hook(host)
        self.power(host, on=False)

    def start_reinstall(self, host: Host, now: datetime, image: str, *, kext: bool) -> None:
        self._begin(host, "reinstalling", now, self._install_seconds())
        host.next_image = image
        host.kext_enabled = kext
        host.next_authorized_keys = self.project_keys(host.project_id)
        self.power(host, on=False)

    def power(self, host: Host, *, on: bool) -> None:
        if host.powered == on:
            return
        host.powered = on
        for hook in self.on_power:
            hook(host, on)

    def seal(self, host: Host, now: datetime, seconds: float) -> None:
        """Show no password on a GET either, for that long from now."""
        if seconds > 0:
            host.sealed_until = max(host.sealed_until or now, now + self.delay(seconds))

    def remove(self, host: Host) -> None:
        del self.state.hosts[host.id]
        self.state.deleted[host.id] = host.zone
        if (offer := self.state.offers.get(host.type)) is not None:
            offer.stock += 1
        self.power(host, on=False)
        for hook in self.on_delete:
            hook(host)

    def _begin(self, host: Host, activity: Activity, now: datetime, seconds: float) -> None:
        host.activity = activity
        host.activity_until = now + self.delay(seconds)
        host.updated_at = now

    def _install_seconds(self) -> float:
        return self.rng.uniform(*self.state.behaviour.reinstall)

    # Things a host is made of

    def fresh_id(self) -> str:
        """An id that nothing has yet: a restored cloud may be given the seed it was born with."""
        while True:
            candidate = new_uuid(self.rng)
            if candidate not in self.state.hosts and candidate not in self.state.deleted:
                return candidate

    def fresh_ip(self) -> str:
        ip = self.state.next_ip
        self.state.next_ip = str(ipaddress.ip_address(ip) + 1)
        return ip

    def password(self) -> str:
        return "".join(self.rng.choice(_PASSWORD_LETTERS) for _ in range(13))

    def project_keys(self, project_id: str) -> list[str]:
        keys = self.state.ssh_keys.values()
        return [key.public_key for key in keys if key.project_id == project_id and not key.disabled]


def _due_at(host: Host) -> datetime | None:
    """The end of what is under way, or the moment of a scheduled deletion."""
    if host.activity is not None:
        return host.activity_until
    return host.deletable_at if host.deletion_scheduled else None
