"""A Mac's Lease: alive by each report that counts, and the place where every replica reads which report that was.

| ends after | what is left | what heals it |
|---|---|---|
| the Lease is written, before anything else | a living Mac whose Node shows the report before | the next report, to whichever replica |
| the answer to the write is lost | a report that counts, or does not | the next report is newer than either |
| two replicas note two reports at once | one conflict | it reads again, and drops the older |
"""

from datetime import datetime, timedelta
from typing import Final, Literal

from paddock.base.clock import Clock, parse_rfc3339, rfc3339_micro
from paddock.base.names import RUNTIME_LABEL, TART
from paddock.clients.gateway.messages import Report
from paddock.gateway.identity import MacIdentity
from paddock.gateway.report_order import REPORT, Heard, order_of, parse
from paddock.hosts.mac_key import KEY_USED
from paddock.kube.builtin import Lease, LeaseSpec
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference

__all__ = ["LEASES", "OWNER_UID", "SECONDS", "MacLeases", "Order", "heard_of", "judge", "written"]

Order = Literal["newer", "older", "twin"]

LEASES: Final = "kube-node-lease"
SECONDS: Final = 40
OWNER_UID: Final = "tuist.dev/owner-uid"
"""On a Mac's Node and Lease: the uid of the Machine that it is of. What carries another one is never written."""
_ATTEMPTS: Final = 4
_MOST_KEPT: Final = 4096


def heard_of(mac: MacIdentity, report: Report) -> Heard:
    """The place of the report in the order; the key's number is that of the key which came with it."""
    return Heard(mac.key_number, report.folder, report.life, report.word, report.sequence)


def judge(lease: Lease | None, mac: MacIdentity, report: Heard, now: datetime) -> Order:
    """Whether the report counts, by what the Lease says. `twin`: it speaks for a Mac that another agent speaks for."""
    if lease is None:
        return "newer"
    noted = lease.metadata.annotations
    if lease.metadata.labels.get(RUNTIME_LABEL) != TART:
        return "twin"  # a kubelet's, or a person's: this name is taken
    if noted.get(OWNER_UID) != mac.machine_uid:
        # Of a Machine that had the name before. Its numbers say nothing about this one's; only that it still renews does.
        return "twin" if _renewed_since(lease, now - timedelta(seconds=SECONDS)) else "newer"
    return order_of(parse(noted.get(REPORT, "")), report)


def _renewed_since(lease: Lease, moment: datetime) -> bool:
    try:
        return parse_rfc3339(lease.spec.renew_time or "") > moment
    except ValueError:
        return False


def written(
    lease: Lease | None, mac: MacIdentity, report: Heard, *, proven: bool, node_uid: str, now: datetime
) -> Lease:
    """The Lease once the report counts. The key's digits are noted only where the Mac knows that the key is good."""
    before = lease.metadata.annotations if lease is not None else {}
    kept = before.get(KEY_USED, "") if before.get(OWNER_UID) == mac.machine_uid else ""
    used = mac.key_digits if proven else kept
    notes = {OWNER_UID: mac.machine_uid, REPORT: str(report)} | ({KEY_USED: used} if used else {})
    owner = OwnerReference(api_version="v1", kind="Node", name=mac.name, uid=node_uid)
    meta = ObjectMeta(
        name=mac.name,
        namespace=LEASES,
        resource_version=lease.metadata.resource_version if lease is not None else "",
        labels={RUNTIME_LABEL: TART},
        annotations=notes,
        # A Node that is made anew has another uid; by the former one the Lease would be collected.
        owner_references=(owner,) if node_uid else (),
    )
    spec = LeaseSpec(holder_identity=mac.name, lease_duration_seconds=SECONDS, renew_time=rfc3339_micro(now))
    return Lease(metadata=meta, spec=spec)


class MacLeases:
    """Every method raises KubeError where the API server does not answer, or others write without end: nothing is known then."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kept: dict[str, Lease] = {}

    async def note(self, mac: MacIdentity, report: Heard, *, proven: bool, node_uid: str = "") -> Order:
        """Renew the Lease with this report, if it counts. Only `newer` was written, and only then may anything be written from it.

        `node_uid` is that of the Node which was found to be this Mac's, empty while there is none.
        """
        lease = self._kept.pop(mac.name, None)
        if lease is None:
            lease = await self._read(mac.name)
        for _ in range(_ATTEMPTS):
            now = self._clock.now()
            if (order := judge(lease, mac, report, now)) != "newer":
                # What was kept may be older than the server's: a refusal rests on a read.
                fresh = await self._read(mac.name)
                if fresh == lease:
                    return order
                lease = fresh
                continue
            wanted = written(lease, mac, report, proven=proven, node_uid=node_uid, now=now)
            try:
                stored = await (self._client.create(wanted) if lease is None else self._client.update(wanted))
            except (AlreadyExistsError, ConflictError, NotFoundError):
                lease = await self._read(mac.name)
                continue
            self._keep(stored)
            return "newer"
        raise ConflictError(f"the Lease of {mac.name} changed {_ATTEMPTS} times while a report was noted", code=409)

    async def names(self, name: str, report: Heard) -> bool:
        """Whether this is the report that was noted last, read afresh. Ask between taking a version and writing under it."""
        lease = await self._read(name)
        return lease is not None and parse(lease.metadata.annotations.get(REPORT, "")) == report

    async def _read(self, name: str) -> Lease | None:
        try:
            return await self._client.get(Lease, name, LEASES)
        except NotFoundError:
            return None

    def _keep(self, lease: Lease) -> None:
        """Saves a read at the next report: an update under its version fails where another replica wrote meanwhile."""
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[lease.metadata.name] = lease
