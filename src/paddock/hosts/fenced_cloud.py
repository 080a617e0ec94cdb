"""The only way to change anything in the cloud: while we may.

A mutation is sent only while our lease has more left than the request may take. So whatever a leader sends has arrived,
or never will, before the lease it acted under can pass to another; the waiting time before a host is claimable again
covers the rest.
"""

from collections.abc import Callable

from paddock.clients.scaleway import AlreadyUnderWay, BelowBillingFloor, Cloud, Done, Gone, Server

__all__ = ["FencedCloud", "LeaseTooShortError"]


class LeaseTooShortError(Exception):
    """Our lease ends too soon to send a mutation: the next leader, or we after renewing, will send it."""


class FencedCloud:
    """The cloud's mutations, each guarded by the lease. `lease_left` is infinite where there is no election."""

    def __init__(self, cloud: Cloud, lease_left: Callable[[], float], request_timeout: float) -> None:
        self._cloud = cloud
        self._lease_left = lease_left
        self._request_timeout = request_timeout

    def _check(self) -> None:
        left = self._lease_left()
        if left <= self._request_timeout:
            raise LeaseTooShortError(
                f"the lease has {left:.0f} s left, a request may take {self._request_timeout:.0f} s"
            )

    async def rename(self, zone: str, server_id: str, name: str) -> Server:
        self._check()
        return await self._cloud.rename(zone, server_id, name)

    async def reboot(self, zone: str, server_id: str) -> Done | AlreadyUnderWay | Gone:
        self._check()
        return await self._cloud.reboot(zone, server_id)

    async def reinstall(self, zone: str, server_id: str, os_id: str | None) -> Done | AlreadyUnderWay | Gone:
        self._check()
        return await self._cloud.reinstall(zone, server_id, os_id=os_id)

    async def order(self, zone: str, server_type: str, name: str, os_id: str | None) -> Server:
        self._check()
        return await self._cloud.order(zone, server_type, name, os_id=os_id)

    async def delete(self, zone: str, server_id: str) -> Done | Gone | BelowBillingFloor:
        self._check()
        return await self._cloud.delete(zone, server_id)

    async def schedule_deletion(self, zone: str, server_id: str) -> Done | Gone:
        self._check()
        return await self._cloud.schedule_deletion(zone, server_id)
