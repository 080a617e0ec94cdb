"""The contract between the host subsystem and whatever rents out Macs.

`ScalewayClient` keeps it against the real API; the simulated cloud keeps it through the same client. Whoever writes
another implementation keeps these promises:

- every method may raise any `ScalewayError`; a refusal that means "already so" is a result, not an error;
- a method sends at most one mutation, at most once, and is done with it within the request timeout;
- after `Unavailable` with `effect_unknown` the effect may have happened or may still happen: read before acting;
- nothing but `get_server` yields credentials;
- a list is complete or it is an error.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from paddock.clients.scaleway.credentials import FetchedServer
from paddock.clients.scaleway.model import Diagnostic, OperatingSystem, Price, Server, ServerList, ServerType
from paddock.clients.scaleway.results import AlreadyUnderWay, BelowBillingFloor, Done, Gone, StillThere, Unknown

__all__ = ["Cloud"]


class Cloud(Protocol):
    """Rented Macs, by zone and server id."""

    async def list_servers(self, zone: str, *, project_id: str | None = None) -> ServerList:
        """Every server of the project in the zone. Raises IncompleteList rather than return a part of them.

        One call for each hundred servers: take it once a cycle and share it, rather than once for each machine.
        """
        ...

    async def get_server(self, zone: str, server_id: str) -> FetchedServer:
        """One server and its credentials, read now.

        Raises NotFound or PermissionDenied; neither alone proves that the server is gone. `credentials.password` is
        None while the cloud seals it, which can last for a while after a reboot: a wait, not a fault.
        """
        ...

    async def is_gone(self, zone: str, server_id: str, *, project_id: str | None = None) -> Gone | StillThere | Unknown:
        """Whether the server exists, by evidence. Never raises a ScalewayError: what cannot be proven is Unknown.

        A deleted server and a key without rights give the same 403. It is Gone only where the cloud says `not_found`
        of this very server, or where a complete list with the same key succeeds and does not hold it. The caller's
        duty: name the project that the server was claimed in, should the configured one have changed since.
        """
        ...

    async def rename(self, zone: str, server_id: str, name: str) -> Server:
        """Give the server another name. Last write wins, and there is no condition: GET before and after.

        Never repeated by itself. Raises NotFound where the server is provably gone (also behind a 403).
        """
        ...

    async def reboot(self, zone: str, server_id: str) -> Done | AlreadyUnderWay | Gone:
        """Restart the Mac. AlreadyUnderWay where some operation that ends in a boot is running."""
        ...

    async def reinstall(
        self, zone: str, server_id: str, *, os_id: str | None, enable_kext: bool = False
    ) -> Done | AlreadyUnderWay | Gone:
        """Wipe the disk and install an image; without `os_id` the type's default of today, which drifts.

        AlreadyUnderWay only while the server is provably `reinstalling`. Busy with anything else raises
        TransientState, because the disk then stays as it is: ask again later. Asynchronous: minutes pass between Done
        and a wiped, ready server.
        """
        ...

    async def order(self, zone: str, server_type: str, name: str, *, os_id: str | None) -> Server:
        """Rent a new server under this name; it is billed from now on, for a day at least.

        Never repeated by itself, because the cloud would rent another: after `effect_unknown`, look for the name in a
        complete list before asking again. Raises OutOfStock and QuotaExceeded.
        """
        ...

    async def delete(self, zone: str, server_id: str) -> Done | Gone | BelowBillingFloor:
        """Give the server back for good. BelowBillingFloor for either shape of the 412: see `schedule_deletion`."""
        ...

    async def schedule_deletion(self, zone: str, server_id: str) -> Done | Gone:
        """Have the cloud delete the server by itself once its billing floor has passed."""
        ...

    async def list_os(self, zone: str, *, server_type: str | None = None) -> Sequence[OperatingSystem]:
        """The images of today. Not to be remembered: images are retired without notice."""
        ...

    async def newest_image(self, zone: str, family: str, *, server_type: str | None = None) -> OperatingSystem:
        """The newest image of a family, read now. Raises OSNotPublished, which names the families there are."""
        ...

    async def list_server_types(self, zone: str) -> Sequence[ServerType]:
        """The types that can be rented in the zone, with their stock."""
        ...

    async def list_prices(self, zone: str) -> Mapping[str, Price]:
        """What each type costs, by type."""
        ...

    async def start_diagnostic(self, zone: str, server_id: str) -> str:
        """Ask the provider to look at the server; returns the id to ask for. Harmless to the server."""
        ...

    async def get_diagnostic(self, zone: str, diagnostic_id: str) -> Diagnostic:
        """What the provider has found so far; `finished` says whether it still looks."""
        ...

    async def ensure_ssh_key(self, name: str, public_key: str) -> str:
        """Have this key registered in the project, under this name where it is new; returns its id. No other key is touched.

        Keys reach a Mac when it is ordered or reinstalled, never later.
        """
        ...
