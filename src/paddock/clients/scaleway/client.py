"""The cloud over HTTP: Scaleway's Apple-silicon API, its image catalogue, its prices and its IAM SSH keys."""

import random
from types import TracebackType
from typing import Any, NoReturn, Self
from urllib.parse import quote

import httpx2

from paddock.base.clock import Clock
from paddock.clients.scaleway.billing_floor import floor_of
from paddock.clients.scaleway.budget import RequestBudget
from paddock.clients.scaleway.connection import ScalewayConnection, shaped
from paddock.clients.scaleway.credentials import FetchedServer, SealedFields, credentials_of
from paddock.clients.scaleway.errors import (
    InvalidArguments,
    NotFound,
    PermissionDenied,
    PreconditionFailed,
    ScalewayError,
    TransientState,
)
from paddock.clients.scaleway.model import (
    REINSTALLING,
    Diagnostic,
    OperatingSystem,
    Price,
    Server,
    ServerList,
    ServerType,
    SSHKey,
)
from paddock.clients.scaleway.os_family import newest_image
from paddock.clients.scaleway.paging import read_all
from paddock.clients.scaleway.prices import prices_of
from paddock.clients.scaleway.results import AlreadyUnderWay, BelowBillingFloor, Done, Gone, StillThere, Unknown
from paddock.clients.scaleway.settings import ScalewaySettings
from paddock.clients.scaleway.ssh_keys import KeepKey, decide_ssh_key

__all__ = ["ScalewayClient"]

_CATALOGUE = "/product-catalog/v2alpha1/public-catalog/products"
_SSH_KEYS = "/iam/v1alpha1/ssh-keys"


class ScalewayClient:
    """Keeps the contract of `Cloud` against the real API, or against the simulated one through `transport`.

    One instance a process, so that one budget covers it all; close it, or use it as an async context manager.
    """

    def __init__(
        self,
        settings: ScalewaySettings,
        clock: Clock,
        rng: random.Random,
        transport: httpx2.AsyncBaseTransport | None = None,
        budget: RequestBudget | None = None,
    ) -> None:
        self._clock = clock
        self._project_id = settings.project_id
        self._connection = ScalewayConnection(settings, clock, rng, transport, budget)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._connection.aclose()

    # Reading servers

    async def list_servers(self, zone: str, *, project_id: str | None = None) -> ServerList:
        taken_at = self._clock.now()  # the list speaks of a moment after this one, so that its age is never understated
        entries = await read_all(
            self._connection,
            _servers(zone),
            {"order_by": "created_at_desc", "project_id": project_id or self._project_id},
            key="servers",
            identity="id",
        )
        servers = tuple(shaped(entry, Server) for entry in entries)
        return ServerList(zone=zone, servers=servers, total_count=len(entries), taken_at=taken_at)

    async def get_server(self, zone: str, server_id: str) -> FetchedServer:
        answer = await self._connection.read(_server(zone, server_id))
        return FetchedServer(
            server=shaped(answer, Server),
            credentials=credentials_of(shaped(answer, SealedFields)),
        )

    async def is_gone(self, zone: str, server_id: str, *, project_id: str | None = None) -> Gone | StillThere | Unknown:
        try:
            fetched = await self.get_server(zone, server_id)
        except (NotFound, PermissionDenied) as refusal:
            return await self._absence(zone, server_id, refusal, project_id)
        except ScalewayError as error:
            return Unknown(f"reading the server failed: {error.message}")
        return StillThere(fetched.server)

    # Changing servers

    async def rename(self, zone: str, server_id: str, name: str) -> Server:
        try:
            answer = await self._connection.mutate("PATCH", _server(zone, server_id), {"name": name})
        except (NotFound, PermissionDenied) as refusal:
            gone = await self._gone_or_raise(zone, server_id, refusal)
            raise NotFound(gone.evidence, kind="not_found", details={"resource": "server"}) from refusal
        return shaped(answer, Server, after_mutation=True)

    async def reboot(self, zone: str, server_id: str) -> Done | AlreadyUnderWay | Gone:
        try:
            answer = await self._connection.mutate("POST", f"{_server(zone, server_id)}/reboot", {})
        except TransientState as busy:
            return AlreadyUnderWay(busy.current_state)
        except (NotFound, PermissionDenied) as refusal:
            return await self._gone_or_raise(zone, server_id, refusal)
        return Done(shaped(answer, Server, after_mutation=True))

    async def reinstall(
        self, zone: str, server_id: str, *, os_id: str | None, enable_kext: bool = False
    ) -> Done | AlreadyUnderWay | Gone:
        body: dict[str, Any] = {"enable_kext": enable_kext}
        if os_id is not None:
            body["os_id"] = os_id
        try:
            answer = await self._connection.mutate("POST", f"{_server(zone, server_id)}/reinstall", body)
        except TransientState as busy:
            return await self._reinstalling_or_raise(zone, server_id, busy)
        except (NotFound, PermissionDenied) as refusal:
            return await self._gone_or_raise(zone, server_id, refusal)
        return Done(shaped(answer, Server, after_mutation=True))

    async def order(self, zone: str, server_type: str, name: str, *, os_id: str | None) -> Server:
        body: dict[str, Any] = {
            "type": server_type,
            "name": name,
            "project_id": self._project_id,
            "enable_vpc": False,
            "enable_kext": False,
        }
        if os_id is not None:
            body["os_id"] = os_id
        answer = await self._connection.mutate("POST", f"{_zone(zone)}/servers", body)
        return shaped(answer, Server, after_mutation=True)

    async def delete(self, zone: str, server_id: str) -> Done | Gone | BelowBillingFloor:
        try:
            await self._connection.mutate("DELETE", _server(zone, server_id), None)
        except PreconditionFailed as refusal:
            return await self._below_floor(zone, server_id, refusal)
        except (NotFound, PermissionDenied) as refusal:
            return await self._gone_or_raise(zone, server_id, refusal)
        return Done()

    async def schedule_deletion(self, zone: str, server_id: str) -> Done | Gone:
        try:
            answer = await self._connection.mutate("PATCH", _server(zone, server_id), {"schedule_deletion": True})
        except (NotFound, PermissionDenied) as refusal:
            return await self._gone_or_raise(zone, server_id, refusal)
        except ScalewayError as error:
            error.add_note("while asking the cloud to schedule deletion")
            raise
        return Done(shaped(answer, Server, after_mutation=True))

    # Images, types, prices

    async def list_os(self, zone: str, *, server_type: str | None = None) -> tuple[OperatingSystem, ...]:
        # The API's own name filter is a prefix match (26.6 also finds 26.6.1), so that it is never used.
        params: dict[str, str | int] = {} if server_type is None else {"server_type": server_type}
        entries = await read_all(self._connection, f"{_zone(zone)}/os", params, key="os", identity="id")
        return tuple(shaped(entry, OperatingSystem) for entry in entries)

    async def newest_image(self, zone: str, family: str, *, server_type: str | None = None) -> OperatingSystem:
        return newest_image(await self.list_os(zone, server_type=server_type), family, server_type)

    async def list_server_types(self, zone: str) -> tuple[ServerType, ...]:
        answer = await self._connection.read(f"{_zone(zone)}/server-types")
        entries = answer.get("server_types", []) if isinstance(answer, dict) else answer
        return shaped(entries, tuple[ServerType, ...])

    async def list_prices(self, zone: str) -> dict[str, Price]:
        params: dict[str, str | int] = {"product_types": "apple_silicon", "zone": zone}
        return prices_of(await read_all(self._connection, _CATALOGUE, params, key="products", identity="sku"))

    # Diagnostics

    async def start_diagnostic(self, zone: str, server_id: str) -> str:
        _segment("server_id", server_id)
        answer = await self._connection.mutate("POST", _diagnostics(zone), {"server_id": server_id})
        return str(shaped(answer, dict[str, str], after_mutation=True).get("diagnostic_id", ""))

    async def get_diagnostic(self, zone: str, diagnostic_id: str) -> Diagnostic:
        path = f"{_diagnostics(zone)}/{_segment('diagnostic_id', diagnostic_id)}"
        return shaped(await self._connection.read(path), Diagnostic)

    # SSH keys

    async def list_ssh_keys(self, name: str | None = None) -> tuple[SSHKey, ...]:
        """The project's keys. The project is always named: a project-scoped policy refuses a list without it."""
        params: dict[str, str | int] = {"project_id": self._project_id, "order_by": "created_at_desc"}
        if name is not None:
            params["name"] = name
        entries = await read_all(self._connection, _SSH_KEYS, params, key="ssh_keys", identity="id")
        return tuple(shaped(entry, SSHKey) for entry in entries)

    async def ensure_ssh_key(self, name: str, public_key: str) -> str:
        decision = decide_ssh_key(await self.list_ssh_keys(), public_key)
        if isinstance(decision, KeepKey):
            return decision.key_id
        body = {"name": name, "public_key": public_key.strip(), "project_id": self._project_id}
        answer = await self._connection.mutate("POST", _SSH_KEYS, body)
        return shaped(answer, SSHKey, after_mutation=True).id

    # Evidence

    async def _absence(
        self, zone: str, server_id: str, refusal: ScalewayError, project_id: str | None
    ) -> Gone | StillThere | Unknown:
        """What a 403 or a 404 on one server means."""
        if isinstance(refusal, NotFound) and refusal.kind == "not_found" and refusal.resource == "server":
            return Gone("the cloud says not_found of this server")
        try:
            servers = await self.list_servers(zone, project_id=project_id)
        except ScalewayError as error:
            return Unknown(f"the server was refused ({refusal.message}), and so was the list: {error.message}")
        if (server := servers.find(server_id)) is not None:
            return StillThere(server)
        return Gone(
            f"the cloud answered {refusal.status}, and the complete list of {len(servers)} servers in {zone} "
            "does not hold it",
            listed=len(servers),
        )

    async def _gone_or_raise(self, zone: str, server_id: str, refusal: ScalewayError) -> Gone:
        """Gone where that is proven, else the refusal itself. A 404 of an image says nothing about the server."""
        if refusal.resource not in {"", "server"}:
            raise refusal
        verdict = await self._absence(zone, server_id, refusal, None)
        if isinstance(verdict, Gone):
            return verdict
        raise refusal

    async def _reinstalling_or_raise(self, zone: str, server_id: str, busy: TransientState) -> AlreadyUnderWay:
        """A server that is busy rebooting is not being wiped: only `reinstalling` counts."""
        state = busy.current_state
        if not state:
            state = (await self.get_server(zone, server_id)).server.status
        if state == REINSTALLING:
            return AlreadyUnderWay(state)
        raise busy

    async def _below_floor(self, zone: str, server_id: str, refusal: PreconditionFailed) -> BelowBillingFloor:
        deletable_at = floor_of(refusal)
        if deletable_at is None:
            try:
                server = (await self.get_server(zone, server_id)).server
            except ScalewayError:
                # The date is only for people; the refusal itself has been understood.
                return BelowBillingFloor(refusal.help_message)
            deletable_at = server.deletable_at if server.delivered else None
        return BelowBillingFloor(refusal.help_message, deletable_at)


def _segment(field: str, value: str) -> str:
    """One segment of a path. An empty one would make `DELETE /servers/` of a delete, so that it is refused here."""
    if not value or value in {".", ".."} or "/" in value:
        _refuse(field, value)
    return quote(value, safe="")


def _refuse(field: str, value: str) -> NoReturn:
    raise InvalidArguments(
        f"{field} is {value!r}: expected an identifier", details={"fields": {field: "expected an identifier"}}
    )


def _zone(zone: str) -> str:
    return f"/apple-silicon/v1alpha1/zones/{_segment('zone', zone)}"


def _servers(zone: str) -> str:
    return f"{_zone(zone)}/servers"


def _server(zone: str, server_id: str) -> str:
    return f"{_servers(zone)}/{_segment('server_id', server_id)}"


def _diagnostics(zone: str) -> str:
    return f"{_zone(zone)}/connectivity-diagnostics"
