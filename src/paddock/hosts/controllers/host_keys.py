"""Pins the SSH key of every host as soon as it can be seen after an install, while that is still evidence.

A key that is pinned when the wipe ends, and not when the host is claimed days later, leaves an impostor minutes and not
days. One cycle looks at all hosts without a key; a host that does not answer is looked at again in the next.
"""

import asyncio
from collections.abc import Callable, Iterable

from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.bootstrap.contract import Bootstrapper
from paddock.hosts.first_contact import Believe, Known, first_contact
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError

__all__ = ["HostKeys", "pin_host_key"]

Host = ScalewayAppleSiliconHost
_log = get_logger("host keys")
_AT_A_TIME = 8


class HostKeys:
    def __init__(
        self, client: Client, clock: Clock, bootstrapper: Bootstrapper, hosts: Callable[[], Iterable[Host]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._bootstrapper = bootstrapper
        self._hosts = hosts

    async def cycle(self) -> None:
        room = asyncio.Semaphore(_AT_A_TIME)

        async def one(host: Host) -> None:
            async with room:
                await self._look(host)

        waiting = [host for host in self._hosts() if _worth_a_look(host)]
        await asyncio.gather(*(one(host) for host in waiting))

    async def _look(self, host: Host) -> None:
        match first_contact(host, self._clock.now()):
            case Known(host_key):
                await pin_host_key(self._client, self._clock, host, host_key, "a person vouched for it")
            case Believe():
                host_key = await self._bootstrapper.host_key(host)
                # Asked again: the answer may have taken longer than the window lasts.
                if host_key and isinstance(first_contact(host, self._clock.now()), Believe):
                    await pin_host_key(self._client, self._clock, host, host_key, "first seen within the window")
            case _:
                pass  # the machine that gets it says so


async def pin_host_key(client: Client, clock: Clock, host: Host, host_key: str, why: str) -> bool:
    """In the version that was judged: a key of an install that was wiped meanwhile must not be pinned. False: it moved on."""
    meta = host.metadata
    status = {"hostKey": host_key, "firstContact": {"seenAt": rfc3339(clock.now())}}
    patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    try:
        await client.merge_patch(Host, meta.name, patch, namespace=meta.namespace, subresource="status")
    except (ConflictError, NotFoundError):
        return False  # whoever looks next sees what it is then
    _log.info("a host key is pinned", host=meta.name, key=host_key, why=why)
    return True


def _worth_a_look(host: Host) -> bool:
    status = host.status
    settled = host.spec.release is None and status.delivered and status.cloud_status == "ready"
    return settled and bool(status.ip) and not status.host_key
