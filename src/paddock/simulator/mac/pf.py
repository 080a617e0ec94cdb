"""The packet filter of a simulated Mac: what the kernel holds, and when it answers "Resource busy".

Tables live in an anchor or in the main ruleset (the anchor ""). What the production incidents showed, and what a script
therefore has to cope with here:

- a file that defines a table fails if a *persistent* table of that name exists in its anchor or in the main ruleset, as
  an earlier version of the script has left it;
- loading the whole pf.conf fails if it loads an anchor whose tables are in use on a filter that is switched on;
- a failed load changes nothing;
- flushing (`-F all`, `-F Tables`) empties a persistent table and keeps it; only `-T kill`, in the scope where it lives,
  removes it. A table without `persist` goes by itself with the last rule that speaks of it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paddock.simulator.mac.disk import Disk
from paddock.simulator.mac.pf_rules import Ruleset, RulesetError, parse

__all__ = ["Anchor", "PacketFilter", "Table"]

MAIN = ""


@dataclass(slots=True)
class Table:
    addresses: list[str] = field(default_factory=list)
    persist: bool = False


@dataclass(slots=True)
class Anchor:
    """One ruleset in the kernel."""

    filters: list[str] = field(default_factory=list)
    translations: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        return not (self.filters or self.translations or self.tables)


class PacketFilter:
    """The kernel's side. A reboot gives a new one."""

    def __init__(self) -> None:
        self.enabled = False
        self.tokens: list[int] = []
        self.anchors: dict[str, Anchor] = {MAIN: Anchor()}

    def anchor(self, name: str) -> Anchor:
        """The anchor to change; made if it is not there."""
        return self.anchors.setdefault(name.strip("/"), Anchor())

    def tables(self, anchor: str = MAIN) -> dict[str, Table]:
        return self.anchors.get(anchor, Anchor()).tables

    def rules(self, anchor: str = MAIN) -> list[str]:
        return self.anchors.get(anchor, Anchor()).filters

    def translations(self, anchor: str = MAIN) -> list[str]:
        return self.anchors.get(anchor, Anchor()).translations

    # Loading

    def load(self, ruleset: Ruleset, anchor: str = MAIN) -> None:
        """Replace what an anchor holds by a file; all of it or, with a RulesetError, nothing."""
        anchor = anchor.strip("/")
        plan = list(_flattened(anchor, ruleset))
        busy = list(self._busy(plan, whole=anchor == MAIN))
        if busy:
            raise RulesetError(*busy)
        for name, part in plan:
            self._replace(name, part)

    def _busy(self, plan: list[tuple[str, Ruleset]], *, whole: bool) -> Iterable[str]:
        defined: set[tuple[str, str]] = set()
        for name, part in plan:
            for table in part.tables:
                twice = (name, table.name) in defined
                defined.add((name, table.name))
                if twice or self._held(name, table.name, whole=whole and name != MAIN):
                    yield f"{part.path}:{table.line}: cannot define table {table.name}: Resource busy"

    def _held(self, anchor: str, table: str, *, whole: bool) -> bool:
        for scope in {anchor, MAIN}:
            existing = self.tables(scope).get(table)
            if existing is not None and existing.persist:
                return True
        own = self.anchors.get(anchor)
        return whole and self.enabled and own is not None and table in own.tables and table in own.references

    def _replace(self, name: str, ruleset: Ruleset) -> None:
        anchor = self.anchor(name)
        anchor.filters, anchor.translations = list(ruleset.filters), list(ruleset.translations)
        anchor.references = ruleset.references()
        for table in ruleset.tables:
            anchor.tables[table.name] = Table(list(table.addresses), table.persist)
        defined = {table.name for table in ruleset.tables}
        for gone in [key for key, value in anchor.tables.items() if not value.persist and key not in defined]:
            del anchor.tables[gone]
        self._collect(name)

    def _collect(self, name: str) -> None:
        """Let tables go that nothing holds, and an anchor in which nothing is left."""
        anchor = self.anchor(name)
        for table in [key for key, value in anchor.tables.items() if not value.persist]:
            if table not in anchor.references:
                del anchor.tables[table]
        if name != MAIN and anchor.empty:
            self.anchors.pop(name, None)

    def load_at_boot(self, disk: Disk) -> None:
        """What the system does at each boot: load /etc/pf.conf, if it can be read, and leave the filter switched off."""

        def opened(path: str) -> str | None:
            place = disk.at(path)
            return place.read_text(errors="replace") if place.is_file() else None

        text = opened("/etc/pf.conf")
        if text is None:
            return
        try:
            self.load(parse("/etc/pf.conf", text, opened))
        except RulesetError:
            return  # as on a Mac: the boot goes on without rules, and logs nothing

    # Taking away

    def kill(self, anchor: str, table: str) -> bool:
        """Remove a table in this scope; False where there is none."""
        anchor = anchor.strip("/")
        if table not in self.tables(anchor):
            return False
        del self.anchors[anchor].tables[table]
        self._collect(anchor)
        return True

    def flush(self, anchor: str, what: str) -> None:
        anchor = anchor.strip("/")
        if anchor not in self.anchors:
            return
        held = self.anchors[anchor]
        if what in {"rules", "all"}:
            held.filters = []
        if what in {"nat", "all"}:
            held.translations = []
        if what in {"Tables", "all"}:
            for table in held.tables.values():
                table.addresses = []
        rest = Ruleset("", filters=held.filters, translations=held.translations)
        held.references = rest.references()
        self._collect(anchor)


def _flattened(anchor: str, ruleset: Ruleset) -> Iterator[tuple[str, Ruleset]]:
    """A file and everything it loads, each with the anchor it goes to."""
    yield anchor, ruleset
    for name, nested in ruleset.nested:
        yield from _flattened(f"{anchor}/{name}".strip("/"), nested)
