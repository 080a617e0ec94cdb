"""The simulated Scaleway: the REST API of the real one over Macs that exist only as timestamps."""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from starlette.applications import Starlette

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.base.secrets import Secret
from paddock.clients.scaleway.settings import ScalewaySettings
from paddock.simulator.cloud.catalogue import default_images, default_offers, fast_types, label_of
from paddock.simulator.cloud.catalogue_api import CatalogueApi
from paddock.simulator.cloud.faults import CloudFaults, Fault
from paddock.simulator.cloud.front import AuditEntry, CloudFront
from paddock.simulator.cloud.hardware import Hardware
from paddock.simulator.cloud.network import InProcessTransport, asgi_app
from paddock.simulator.cloud.servers_api import ServersApi
from paddock.simulator.cloud.state import ApiKey, CloudBehaviour, CloudState, Host, Image, ServerHealth
from paddock.simulator.cloud.support_api import SupportApi
from paddock.simulator.service.pause import pause
from paddock.simulator.service.snapshot import rebased

__all__ = ["SimulatedCloud"]

# `run` is woken by every effect; the nap only covers a test that changes a host by hand.
_LONGEST_NAP = 60.0


class SimulatedCloud:
    """A whole cloud in one object, seeded, without global state.

    Callers reach it as they reach the real one, through `app` (HTTP) or `transport()` (in the process). Tests and
    scenarios also reach behind the curtain: they add hosts, rename them from outside, order faults and read the audit.
    State follows the clock lazily; `tick()` makes due changes (and their hooks) happen now, `run()` keeps doing so.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        behaviour: CloudBehaviour | None = None,
        speed: float | None = None,
        audit: bool = True,
        state: CloudState | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self.state = state if state is not None else _new_state(clock, rng)
        if behaviour is not None:
            self.state.behaviour = behaviour
        if speed is not None:
            self.state.behaviour.speed = speed
        self.keep: Callable[[], object] = _not_kept
        """Called before a request that changed something is answered."""
        self._woken = asyncio.Event()
        self.audit: list[AuditEntry] = []
        self.faults = CloudFaults()
        self.health_of: Callable[[Host], ServerHealth] = _health_of_itself
        self._hardware = Hardware(self.state, clock, rng)
        self._servers = ServersApi(self._hardware)
        self._front = CloudFront(
            self._hardware,
            self._servers,
            CatalogueApi(self.state),
            SupportApi(self._hardware, self._health),
            self.faults,
            self.audit if audit else None,
            self._effected,
        )
        self.app: Starlette = asgi_app(self._front)

    def _effected(self) -> None:
        self._woken.set()
        self.keep()

    def _health(self, host: Host) -> ServerHealth:
        return self.health_of(host)  # asked each time, because a simulated Mac may be connected later

    # How to reach it

    def transport(self) -> InProcessTransport:
        return InProcessTransport(self._front)

    def settings(self, api_url: str = "http://127.0.0.1") -> ScalewaySettings:
        """What a client needs to know to use this cloud with its own project's key."""
        return ScalewaySettings(
            secret_key=Secret(self.state.secret_key),
            project_id=self.state.project_id,
            access_key="SCWSIMULATED00000000",
            api_url=api_url,
        )

    @property
    def behaviour(self) -> CloudBehaviour:
        return self.state.behaviour

    # Hooks for a simulated Mac

    @property
    def on_reboot(self) -> list[Callable[[Host], None]]:
        """Told when a Mac goes down for a reboot."""
        return self._hardware.on_reboot

    @property
    def on_reinstall(self) -> list[Callable[[Host], None]]:
        """Told when a fresh install boots: an empty disk, a new password, a new SSH host key (`host.install`)."""
        return self._hardware.on_reinstall

    @property
    def on_power(self) -> list[Callable[[Host, bool], None]]:
        """Told whenever a Mac goes dark (False) or comes up (True)."""
        return self._hardware.on_power

    @property
    def on_delete(self) -> list[Callable[[Host], None]]:
        return self._hardware.on_delete

    # Time

    def tick(self) -> None:
        """Let everything happen that has fallen due, hooks included."""
        self._hardware.settle()

    def next_change(self) -> datetime | None:
        """When something will next happen by itself, or None."""
        return self._hardware.next_change()

    async def run(self) -> None:
        """Tick for ever, so that hooks fire in time even while no client asks the cloud anything."""
        while True:
            self.tick()
            self._woken.clear()
            moment = self.next_change()
            wait = _LONGEST_NAP if moment is None else (moment - self._clock.now()).total_seconds()
            await pause(self._clock, self._woken, min(wait, _LONGEST_NAP))

    # Behind the curtain

    def add_host(
        self,
        name: str,
        *,
        zone: str = "fr-par-1",
        server_type: str = "M4-M",
        image: str = "macos-tahoe-26.3",
        project_id: str | None = None,
        age: float = 30 * 86400.0,
        deletable_at: datetime | None = None,
        ip: str | None = None,
        authorized_keys: list[str] | None = None,
        host_id: str | None = None,
    ) -> Host:
        """A delivered, ready host that has been rented for `age` seconds. `image` is a name of the catalogue.

        It knows the SSH keys that the project has now, unless it is given others.
        """
        now = self._hardware.settle()
        project = project_id or self.state.project_id
        created_at = now - timedelta(seconds=age)
        floor = created_at + timedelta(seconds=self.behaviour.billing_floor)
        return self._hardware.add(
            Host(
                id=host_id or self._hardware.fresh_id(),
                name=name,
                type=server_type,
                zone=zone,
                project_id=project,
                organization_id=self.state.organization_id,
                ip=ip or self._hardware.fresh_ip(),
                image=self.image_named(image).id,
                password=self._hardware.password(),
                created_at=created_at,
                updated_at=created_at + timedelta(seconds=self.behaviour.order),
                deletable_at=deletable_at or floor,
                authorized_keys=self._hardware.project_keys(project) if authorized_keys is None else authorized_keys,
            )
        )

    def seed_pool(
        self, count: int, zone: str = "fr-par-1", server_type: str = "M4-M", prefix: str = "tuist-pool-"
    ) -> list[Host]:
        """Pooled hosts of ages from two hours to forty days, so that some are still below their billing floor."""
        hosts = []
        for _ in range(count):
            age = self._rng.uniform(2 * 3600.0, 40 * 86400.0)
            name = f"{prefix}{new_uuid(self._rng)}"
            hosts.append(self.add_host(name, zone=zone, server_type=server_type, age=age))
        return hosts

    def order(self, name: str, *, zone: str = "fr-par-1", server_type: str = "M4-M", os_id: str | None = None) -> Host:
        """Rent one more Mac as the API's create does, stock and delivery time included."""
        self._woken.set()
        return self._servers.order(
            zone=zone,
            name=name,
            server_type=server_type,
            project_id=self.state.project_id,
            os_id=os_id,
            now=self._hardware.settle(),
        )

    def host(self, host_id: str) -> Host:
        """The host as it is now; raises KeyError for one that is gone."""
        self.tick()
        return self.state.hosts[host_id]

    def hosts(self) -> list[Host]:
        self.tick()
        return list(self.state.hosts.values())

    def foreign_rename(self, host_id: str, name: str) -> None:
        """A person in the console, or another cluster, renames the host."""
        host = self.host(host_id)
        host.name = name
        host.updated_at = self._clock.now()

    def delete_host(self, host_id: str) -> None:
        """A person deletes the host in the console, floor or no floor."""
        self._hardware.remove(self.host(host_id))

    def set_status(self, host_id: str, status: str) -> None:
        """Show this status whatever the host does (`locked`, `error`, a word of the future); "" ends it."""
        self.host(host_id).forced_status = status

    def fail_install(self, host_id: str, status: str = "error") -> None:
        """What is under way on the host will end in this status instead of `ready`."""
        self.host(host_id).next_status = status

    def seal(self, host_id: str, seconds: float) -> None:
        """Show no password on a GET either, for that long."""
        host = self.host(host_id)
        self._hardware.seal(host, self._clock.now(), seconds)

    def restart(self, host_id: str) -> None:
        """A Mac reboots by itself: it goes dark and comes up, and the cloud neither asked for it nor shows it."""
        host = self.host(host_id)
        for hook in self.on_reboot:
            hook(host)
        self._hardware.power(host, on=False)
        host.boots += 1
        self._hardware.power(host, on=True)

    def set_power(self, host_id: str, *, on: bool) -> None:
        """The Mac loses power, or gets it back, without the cloud having asked for it."""
        self._hardware.power(self.host(host_id), on=on)

    def inject(self, fault: Fault) -> Fault:
        """Put a fault on order; it strikes the requests it fits, oldest fault first."""
        self.faults.pending.append(fault)
        return fault

    def heal(self) -> None:
        """Forget every fault on order."""
        self.faults.pending.clear()

    def add_key(self, secret_key: str, *, project_id: str | None = None, permissions: list[str] | None = None) -> None:
        """One more API key. `permissions` are `servers` and `ssh_keys`; none of them makes a key that is refused."""
        key = ApiKey(projects=[project_id or self.state.project_id])
        if permissions is not None:
            key.permissions = permissions
        self.state.api_keys[secret_key] = key

    # The catalogue

    def image_named(self, name: str) -> Image:
        return next(image for image in self.state.images.values() if image.name == name)

    def publish_image(self, name: str, family: str, version: str, *, is_beta: bool = False) -> Image:
        """A new image for every type of today."""
        image = Image(
            id=self._hardware.fresh_id(),
            name=name,
            family=family,
            version=version,
            label=label_of(name),
            is_beta=is_beta,
            server_types=list(self.state.offers),
            fast_for=fast_types(name, self.state.offers),
        )
        self.state.images[image.id] = image
        return image

    def retire_image(self, name: str) -> None:
        """Take an image out of the catalogue. Hosts that run it keep running and keep showing it."""
        self.image_named(name).retired = True

    def set_default_image(self, server_type: str, name: str) -> None:
        """What an unpinned reinstall brings from now on."""
        self.state.offers[server_type].default_image = self.image_named(name).id

    def set_stock(self, server_type: str, count: int) -> None:
        self.state.offers[server_type].stock = count

    # Across restarts

    def to_json(self) -> bytes:
        """The whole cloud, without hooks, faults on order and the audit."""
        self.state.saved_at = self._hardware.settle()
        return msgspec.json.encode(self.state)

    @classmethod
    def from_json(
        cls, data: bytes, clock: Clock, rng: random.Random, *, audit: bool = True, rebase: bool = False
    ) -> "SimulatedCloud":
        """The cloud that was saved. With `rebase` no time has passed since, for a clock that starts anew."""
        state = msgspec.json.decode(data, type=CloudState)
        if rebase:
            state = rebased(state, clock.now() - state.saved_at)
        return cls(clock, rng, audit=audit, state=state)


def _not_kept() -> None:
    """A cloud that lives no longer than its process."""


def _health_of_itself(host: Host) -> ServerHealth:
    """What the probes see where no simulated Mac says otherwise: nothing of a Mac that is dark."""
    if host.powered and host.activity is None:
        return host.health
    return ServerHealth(server_alive=False, agent_alive=False, mdm_alive=False, ssh_port_up=False, vnc_port_up=False)


def _new_state(clock: Clock, rng: random.Random) -> CloudState:
    project_id, secret_key = new_uuid(rng), new_uuid(rng)
    images = default_images(rng)
    return CloudState(
        project_id=project_id,
        organization_id=project_id,
        secret_key=secret_key,
        behaviour=CloudBehaviour(),
        saved_at=clock.now(),
        images=images,
        offers=default_offers(images),
        api_keys={secret_key: ApiKey(projects=[project_id])},
    )
