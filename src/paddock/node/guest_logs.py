"""The logs of the guests that the journal knows: in the share while the VM lives, beside the journal's entry afterwards."""

from paddock.node.context import Context
from paddock.node.journal import Entry

__all__ = ["JournalLog", "JournalLogs"]


class JournalLogs:
    def __init__(self, context: Context) -> None:
        self._context = context

    def find(self, namespace: str, pod: str) -> "JournalLog | None":
        """The log of the newest Pod of that name; None where the journal knows none."""
        entries = [e for e in self._context.journal.entries() if (e.namespace, e.name) == (namespace, pod)]
        return JournalLog(self._context, max(entries, key=lambda e: e.accepted_at)) if entries else None


class JournalLog:
    def __init__(self, context: Context, entry: Entry) -> None:
        self._context = context
        self._uid = entry.uid
        self.container = entry.container

    async def part(self, first: int, limit: int) -> tuple[int, bytes] | None:
        context = self._context
        found = await context.shares(self._uid).log_part(first, limit)
        if found is not None:
            return found
        return await context.files.part(context.journal.folder(self._uid) / "log", first, limit)

    def over(self) -> bool:
        entry = self._context.journal.get(self._uid)
        return entry is None or entry.over
