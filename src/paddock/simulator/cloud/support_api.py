"""The parts of the API beside the servers: SSH keys of the project, and the provider's look at a host."""

import re
from collections.abc import Callable
from datetime import timedelta

from paddock.simulator.cloud import problems, wire
from paddock.simulator.cloud.access import CloudCall, checked_name, host_of, paged, project_of
from paddock.simulator.cloud.hardware import Hardware
from paddock.simulator.cloud.state import Diagnosis, Host, RegisteredKey, ServerHealth
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["SupportApi"]

_KEPT = timedelta(hours=1)  # a diagnosis that no client has asked for in an hour is forgotten


class SupportApi:
    def __init__(self, hardware: Hardware, health_of: Callable[[Host], ServerHealth]) -> None:
        self._hardware = hardware
        self._state = hardware.state
        self._health_of = health_of

    def handlers(self) -> dict[str, Callable[[CloudCall], ServiceResponse]]:
        return {
            "start_diagnostic": self._start_diagnostic,
            "get_diagnostic": self._get_diagnostic,
            "list_ssh_keys": self._list_ssh_keys,
            "create_ssh_key": self._create_ssh_key,
            "get_ssh_key": lambda call: json_answer(200, wire.key_json(self._ssh_key(call))),
            "delete_ssh_key": self._delete_ssh_key,
        }

    def _start_diagnostic(self, call: CloudCall) -> ServiceResponse:
        host = host_of(self._state, call, "read", str(call.fields.get("server_id") or ""))
        ready_at = call.now + self._hardware.delay(self._state.behaviour.diagnostic)
        diagnosis = Diagnosis(id=self._hardware.fresh_id(), server_id=host.id, zone=host.zone, ready_at=ready_at)
        current = {key: old for key, old in self._state.diagnoses.items() if call.now - old.ready_at < _KEPT}
        self._state.diagnoses = {**current, diagnosis.id: diagnosis}
        return json_answer(200, {"diagnostic_id": diagnosis.id}, effect=True)

    def _get_diagnostic(self, call: CloudCall) -> ServiceResponse:
        diagnosis = self._state.diagnoses.get(call.parts["diagnostic_id"])
        if diagnosis is None or diagnosis.zone != call.parts["zone"]:
            raise problems.missing("connectivity_diagnostic", call.parts["diagnostic_id"])
        host = host_of(self._state, call, "read", diagnosis.server_id)
        return json_answer(200, wire.diagnosis_json(diagnosis, self._health_of(host), call.now))

    def _list_ssh_keys(self, call: CloudCall) -> ServiceResponse:
        # A project-scoped policy refuses the list unless it is told the project.
        project = project_of(call, call.query.get("project_id"), "list", "ssh_key")
        keys = [key for key in self._state.ssh_keys.values() if key.project_id == project]
        if name := call.query.get("name"):
            keys = [key for key in keys if name in key.name]
        return paged(call, "ssh_keys", [wire.key_json(key) for key in reversed(keys)])

    def _create_ssh_key(self, call: CloudCall) -> ServiceResponse:
        fields = call.fields
        project = project_of(call, fields.get("project_id"), "create", "ssh_key")
        public_key = str(fields.get("public_key") or "")
        if re.match(r"(ssh-|ecdsa-)\S+ \S+", public_key) is None:
            raise problems.invalid("public_key", "format", "expected an SSH public key")
        key = RegisteredKey(
            id=self._hardware.fresh_id(),
            name=checked_name(fields.get("name")),
            public_key=public_key,
            project_id=project,
            organization_id=self._state.organization_id,
            created_at=call.now,
        )
        self._state.ssh_keys[key.id] = key
        return json_answer(200, wire.key_json(key), effect=True)

    def _delete_ssh_key(self, call: CloudCall) -> ServiceResponse:
        del self._state.ssh_keys[self._ssh_key(call).id]
        return ServiceResponse(status=204, effect=True)

    def _ssh_key(self, call: CloudCall) -> RegisteredKey:
        key = self._state.ssh_keys.get(call.parts["ssh_key_id"])
        if key is None or key.project_id not in call.key.projects:
            raise problems.missing("ssh_key", call.parts["ssh_key_id"])
        return key
