"""`kubectl logs`: what a Pod's runner prints, from wherever its agent posts it.

The API server of a real cluster dials the Node. Rented Macs often cannot be dialled, and their agents post the log anyway,
so it is read where they post it to. What a connection into the Pod would need (exec, attach, port-forward, proxy) is refused with
one sentence that says so.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from paddock.base.clock import Clock, rfc3339
from paddock.base.log_options import LogOptions, log_options
from paddock.base.readable import readable, selected
from paddock.embedded.api import status
from paddock.embedded.api.calls import ApiCall, Target
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure

__all__ = [
    "LogPart",
    "NoLogs",
    "PodLogServer",
    "PodLogs",
    "PostedLog",
    "ShownLog",
    "connection_refused",
    "log_text",
    "wanted_log",
]

Json = dict[str, Any]
_CONNECTIONS: Final = {
    "exec": "run a command in",
    "attach": "attach to",
    "portforward": "forward a port to",
    "proxy": "reach",
    "ephemeralcontainers": "add a container to",
}
_FOLLOW_EVERY: Final = 1.0


class LogPart(Protocol):
    """A piece of a log, and when its first byte came."""

    @property
    def at(self) -> datetime: ...
    @property
    def content(self) -> bytes: ...


class PostedLog(Protocol):
    """What is kept of a log, in order; `next_byte` is how much there was in all, `ended` that no more comes."""

    @property
    def pieces(self) -> Sequence[LogPart]: ...
    @property
    def next_byte(self) -> int: ...
    @property
    def ended(self) -> bool: ...


class PodLogs(Protocol):
    async def read(self, pod_uid: str, *, after: int = 0) -> PostedLog | None:
        """What is kept of a Pod's log from byte `after` on; None where nothing was ever posted."""
        ...


class NoLogs:
    """Where nobody posts logs."""

    async def read(self, pod_uid: str, *, after: int = 0) -> PostedLog | None:
        del pod_uid, after
        return None


def connection_refused(subresource: str, pod: str, node: str) -> ApiFailure | None:
    """The refusal of what needs a connection into a Pod; None for everything else."""
    what = _CONNECTIONS.get(subresource.partition("/")[0])
    if what is None:
        return None
    where = f"the VM runs on Node {node}" if node else "it has no Node yet"
    return ApiFailure(
        501,
        "NotImplemented",
        f"nobody can {what} Pod {pod} through this API ({where}): its log is in kubectl logs; "
        "to look inside, sign in to the Mac and use tart exec",
    )


def wanted_log(query: Mapping[str, str], pod: Json, now: datetime) -> LogOptions:
    """The options of the request; ApiFailure in the words of Kubernetes for what cannot be."""
    name = pod["metadata"]["name"]
    containers = [each["name"] for each in pod["spec"].get("containers") or ()]
    container = query.get("container") or (containers[0] if containers else "")
    if container not in containers:
        inits = [each["name"] for each in pod["spec"].get("initContainers") or ()]
        if container not in inits:
            raise status.bad_request(f"container {container} is not valid for pod {name}")
        raise status.bad_request(
            f"no log is kept of the init container {container} of pod {name}: ask for {containers[0]}"
        )
    try:
        wanted = log_options(query, now)
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    if wanted.previous:
        raise status.bad_request(
            f'previous terminated container "{container}" in pod "{name}" not found: a runner never runs twice in one Pod'
        )
    _check_started(pod, container)
    return wanted


def _check_started(pod: Json, container: str) -> None:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state = next((each.get("state") or {} for each in statuses if each["name"] == container), {})
    if (pod.get("status") or {}).get("phase", "Pending") == "Pending" and "running" not in state:
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        name = pod["metadata"]["name"]
        raise status.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def log_text(log: PostedLog | None, wanted: LogOptions, last_words: str = "") -> str:
    """What to show. Where nothing was posted, the Pod's own last words are better than nothing."""
    if log is None:
        return selected(last_words, tail_lines=wanted.tail_lines, limit_bytes=wanted.limit_bytes)
    shown = [each for each in log.pieces if wanted.since is None or each.at >= wanted.since]
    text = _stamped(shown) if wanted.timestamps else readable(b"".join(each.content for each in shown))
    return selected(text, tail_lines=wanted.tail_lines, limit_bytes=wanted.limit_bytes)


def _stamped(pieces: Sequence[LogPart]) -> str:
    """Every line with the time of the piece in which it began."""
    lines: list[str] = []
    begun = True
    for piece in pieces:
        for line in readable(piece.content).splitlines(keepends=True):
            lines.append(f"{rfc3339(piece.at)} {line}" if begun else line)
            begun = line.endswith("\n")
    return "".join(lines)


def _last_words(pod: Json) -> str:
    """The end of the log that a Pod's status carries, once it has ended."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    said = [((each.get("state") or {}).get("terminated") or {}).get("message") or "" for each in statuses]
    return readable("".join(said[:1]).encode())


async def _followed(
    logs: PodLogs, uid: str, first: PostedLog | None, ended: Callable[[], Awaitable[bool]], clock: Clock
) -> AsyncIterator[bytes]:
    """What is posted after `first`, until the log has ended or the Pod is gone (`ended` says so)."""
    position = first.next_byte if first is not None else 0
    over = first is not None and first.ended
    while not over:
        gone = await ended()  # asked before the log: what was posted before the end is still shown
        found = await logs.read(uid, after=position)
        if found is not None:
            text = readable(b"".join(each.content for each in found.pieces))
            if text:
                yield text.encode()
            position, over = found.next_byte, found.ended
        if gone:
            return
        if not over:
            await clock.sleep(_FOLLOW_EVERY)


@dataclass(frozen=True, slots=True)
class ShownLog:
    """What there is now; with `stream`, which begins with it, what comes."""

    text: bytes = b""
    stream: AsyncIterator[bytes] | None = None


class PodLogServer:
    """Answers for the subresources of Pods that reach into them. `source` is where agents post what runners print."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.source: PodLogs = NoLogs()

    async def answer(self, call: ApiCall, target: Target) -> ShownLog | None:
        """A Pod's log; ApiFailure for what needs a connection into the Pod; None for all other requests."""
        kind = target.kind
        if kind is None or target.group or target.plural != "pods" or not target.subresource:
            return None
        asks_for_log = target.subresource == "log" and call.method == "GET"
        if not asks_for_log and connection_refused(target.subresource, "", "") is None:
            return None
        pod = decode(await self._objects.read(kind, target.namespace, target.name))
        if (
            refused := connection_refused(target.subresource, target.name, pod["spec"].get("nodeName", ""))
        ) is not None:
            raise refused
        clock = self._objects.clock
        wanted = wanted_log(call.query, pod, clock.now())
        uid = pod["metadata"]["uid"]
        log = await self.source.read(uid)
        text = log_text(log, wanted, _last_words(pod)).encode()
        if not wanted.follow or wanted.limit_bytes is not None:
            return ShownLog(text)

        async def ended() -> bool:
            found = await self._objects.find(kind, target.namespace, target.name)
            shown = decode(found) if found is not None else None
            over = ("Succeeded", "Failed")
            return shown is None or shown["metadata"]["uid"] != uid or (shown.get("status") or {}).get("phase") in over

        async def stream() -> AsyncIterator[bytes]:
            yield text
            async for more in _followed(self.source, uid, log, ended, clock):
                yield more

        return ShownLog(stream=stream())
