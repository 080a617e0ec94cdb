"""Which Pods are gone, by what the answers to this Mac's reports say. What they do not say moves nothing. Pure but for what it counts."""

from collections.abc import Iterable

from paddock.clients.gateway.messages import Answer
from paddock.node.journal import Entry

__all__ = ["Absences"]


class Absences:
    """Counts answers of *gone*.

    An entry that is not over is gone after two of them, `apart` seconds apart by the agent's monotonic clock. An entry that is
    over needs one: nothing of it runs. A Pod that is shown in between starts anew.
    """

    def __init__(self, apart: float) -> None:
        self._apart = apart
        self._since: dict[str, float] = {}

    def read(self, answer: Answer, entries: Iterable[Entry], now: float) -> list[str]:
        """The uids that are gone with this answer."""
        shown = {pod.uid for pod in answer.pods}
        known = {entry.uid: entry for entry in entries}
        self._since = {uid: since for uid, since in self._since.items() if uid in known and uid not in shown}
        gone: list[str] = []
        for uid, entry in known.items():
            if uid in shown or answer.absent.get(uid) != "gone":
                continue
            since = self._since.setdefault(uid, now)
            if entry.over or now - since >= self._apart:
                gone.append(uid)
                del self._since[uid]
        return gone
