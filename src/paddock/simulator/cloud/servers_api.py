"""The server part of the API. Every answer to a change is sealed, as with the real one."""

from collections.abc import Callable
from datetime import datetime

from paddock.clients.scaleway.model import next_anniversary
from paddock.simulator.cloud import problems, wire
from paddock.simulator.cloud.access import CloudCall, checked_name, host_of, paged, project_of
from paddock.simulator.cloud.hardware import Hardware
from paddock.simulator.cloud.state import Host, Image
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["ServersApi"]

_BUSY = frozenset({"starting", "rebooting", "updating", "locking", "unlocking", "reinstalling", "busy"})
_ZONES = frozenset({"fr-par-1", "fr-par-3"})
"""Where Macs are offered; a zone that a test put a host into is one, too."""


class ServersApi:
    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._state = hardware.state

    def handlers(self) -> dict[str, Callable[[CloudCall], ServiceResponse]]:
        return {
            "list": self._list,
            "get": self._get,
            "create": self._create,
            "rename": self._update,
            "schedule_deletion": self._update,
            "update": self._update,
            "delete": self._delete,
            "reboot": self._reboot,
            "reinstall": self._reinstall,
        }

    def order(
        self, *, zone: str, name: str, server_type: str, project_id: str, os_id: str | None, now: datetime
    ) -> Host:
        """Rent one more Mac; raises what the API would answer."""
        state, hardware = self._state, self._hardware
        offer = state.offers.get(server_type)
        if offer is None:
            raise problems.invalid("type", "unknown", f"there is no server type {server_type!r}")
        used = sum(host.project_id == project_id for host in state.hosts.values())
        if state.behaviour.quota is not None and used >= state.behaviour.quota:
            raise problems.quota_exceeded(state.behaviour.quota, used)
        if offer.stock <= 0:
            raise problems.out_of_stock(server_type)
        image = self._image_for(os_id, server_type).id if os_id else offer.default_image
        offer.stock -= 1
        host = hardware.add(
            Host(
                id=hardware.fresh_id(),
                name=name,
                type=server_type,
                zone=zone,
                project_id=project_id,
                organization_id=state.organization_id,
                ip=hardware.fresh_ip(),
                image=image,
                password=hardware.password(),
                created_at=now,
                updated_at=now,
                deletable_at=now,
                delivered=False,
                powered=False,
            )
        )
        hardware.start_order(host, now)
        return host

    def _list(self, call: CloudCall) -> ServiceResponse:
        project = call.query.get("project_id")
        projects = call.key.projects if project is None else [project_of(call, project, "list", "server")]
        zone = call.parts["zone"]
        if zone not in _ZONES and all(host.zone != zone for host in self._state.hosts.values()):
            # As the real API: a typo must not look like a zone without hosts.
            raise problems.missing("zone", zone, bare=True)
        hosts = [host for host in self._state.hosts.values() if host.zone == zone and host.project_id in projects]
        newest_first = call.query.get("order_by") == "created_at_desc"
        hosts.sort(key=lambda host: (host.created_at, host.id), reverse=newest_first)
        return paged(
            call, "servers", hosts, lambda host: wire.server_json(self._state, host, sealed=host.sealed(call.now))
        )

    def _get(self, call: CloudCall) -> ServiceResponse:
        host = host_of(self._state, call, "read")
        return json_answer(200, wire.server_json(self._state, host, sealed=host.sealed(call.now)))

    def _create(self, call: CloudCall) -> ServiceResponse:
        fields = call.fields
        host = self.order(
            zone=call.parts["zone"],
            name=checked_name(fields.get("name")),
            server_type=str(fields.get("type") or ""),
            project_id=project_of(call, fields.get("project_id"), "create", "server"),
            os_id=fields.get("os_id"),
            now=call.now,
        )
        host.kext_enabled = bool(fields.get("enable_kext"))
        host.vpc_enabled = bool(fields.get("enable_vpc"))
        host.public_bandwidth_bps = int(fields.get("public_bandwidth_bps") or host.public_bandwidth_bps)
        return self._changed(host)

    def _update(self, call: CloudCall) -> ServiceResponse:
        host, fields = host_of(self._state, call, "write"), call.fields
        if "name" in fields:
            host.name = checked_name(fields["name"])
            self._hardware.seal(host, call.now, self._state.behaviour.sealed_after_rename)
        if "schedule_deletion" in fields:
            host.deletion_scheduled = bool(fields["schedule_deletion"])
            if host.deletion_scheduled and host.commitment == "renewed_monthly":
                host.deletable_at = next_anniversary(host.created_at, call.now)
        if "enable_vpc" in fields:
            host.vpc_enabled = bool(fields["enable_vpc"])
        if "public_bandwidth_bps" in fields:
            host.public_bandwidth_bps = int(fields["public_bandwidth_bps"])
        host.updated_at = call.now
        return self._changed(host)

    def _delete(self, call: CloudCall) -> ServiceResponse:
        host = host_of(self._state, call, "delete")
        _refuse_while_busy(host)
        if call.now < host.deletable_at:
            raise problems.below_floor(self._state.behaviour, host.deletable_at)
        if host.commitment == "renewed_monthly":
            host.deletion_scheduled, host.deletable_at = True, next_anniversary(host.created_at, call.now)
            return ServiceResponse(status=204, effect=True)
        self._hardware.remove(host)
        return ServiceResponse(status=204, effect=True)

    def _reboot(self, call: CloudCall) -> ServiceResponse:
        host = host_of(self._state, call, "write")
        _refuse_while_busy(host)
        self._hardware.start_reboot(host, call.now)
        return self._changed(host)

    def _reinstall(self, call: CloudCall) -> ServiceResponse:
        host, fields = host_of(self._state, call, "write"), call.fields
        _refuse_while_busy(host)
        if host.runner_mode:
            raise problems.precondition("a server in runner mode cannot be reinstalled")
        os_id = fields.get("os_id")
        image = self._image_for(os_id, host.type).id if os_id else self._state.offers[host.type].default_image
        self._hardware.start_reinstall(host, call.now, image, kext=bool(fields.get("enable_kext")))
        return self._changed(host)

    def _changed(self, host: Host) -> ServiceResponse:
        return json_answer(200, wire.server_json(self._state, host, sealed=True), effect=True)

    def _image_for(self, os_id: str, server_type: str) -> Image:
        image = self._state.images.get(os_id)
        if image is None or image.retired:
            if self._state.behaviour.retired_image_shape == "not_found":
                raise problems.missing("os", os_id)
            raise problems.invalid("os_id", "unknown", "this OS is no longer available")
        if server_type not in image.server_types:
            raise problems.invalid("os_id", "constraint", f"this OS does not support {server_type}")
        return image


def _refuse_while_busy(host: Host) -> None:
    if host.status == "locked":
        raise problems.locked(host.id)
    if host.status in _BUSY:
        raise problems.transient(host.id, host.status)
