"""All pages of a list, or an error: never a part of it.

Why a list that passes is complete: it is asked for in the order newest first, so whatever is created meanwhile pushes
every page boundary forwards and whatever is deleted pulls some of them back. An entry can only be skipped at a boundary
that moved back, which needs more deletions than creations, and then `total_count`, which comes with each page, has
changed. A boundary that moved forwards shows an entry twice. So: the same `total_count` on every page, no id twice, and
as many entries as it says. (In the order oldest first one creation and one deletion can hide an entry.)
"""

from typing import Any

from paddock.clients.scaleway.connection import Params, ScalewayConnection
from paddock.clients.scaleway.errors import IncompleteList

__all__ = ["PAGE_SIZE", "read_all"]

PAGE_SIZE = 100
_MOST_PAGES = 1000
_ATTEMPTS = 3


async def read_all(
    connection: ScalewayConnection, path: str, params: Params, key: str, identity: str
) -> list[dict[str, Any]]:
    """Every entry under `key`, proven complete. A list that changed while it was read is read again, a few times.

    `identity` is the field that tells entries apart.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _read_once(connection, path, params, key, identity)
        except IncompleteList:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _read_once(
    connection: ScalewayConnection, path: str, params: Params, key: str, identity: str
) -> list[dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    total: int | None = None
    for page in range(1, _MOST_PAGES + 1):
        answer = await connection.read(path, {**params, "page": page, "page_size": PAGE_SIZE})
        found, count = _page(answer, key, path)
        if total is not None and count != total:
            raise IncompleteList(f"{path}: the total changed from {total} to {count} while reading page {page}")
        total = count
        for entry in found:
            name = str(entry.get(identity) or "")
            if not name or name in entries:
                raise IncompleteList(f"{path}: page {page} has an entry {'twice' if name else f'without {identity}'}")
            entries[name] = entry
        if len(entries) == total:
            return list(entries.values())
        if not found or len(entries) > total:
            raise IncompleteList(f"{path}: {len(entries)} entries after page {page}, but the total is {total}")
    raise IncompleteList(f"{path}: more than {_MOST_PAGES} pages")


def _page(answer: Any, key: str, path: str) -> tuple[list[dict[str, Any]], int]:
    found = answer.get(key, []) if isinstance(answer, dict) else None
    count = answer.get("total_count") if isinstance(answer, dict) else None
    if isinstance(count, str) and count.isdigit():
        count = int(count)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise IncompleteList(f"{path}: the answer has no list of {key}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise IncompleteList(f"{path}: the answer has no total_count, so that nothing proves it complete")
    return found, count
