"""All pages of a list, or an error: never a part of it.

What is created or deleted while we read moves entries from page to page, and one that moves against the direction of
reading is not seen at all, although the total may stay the same (one runner ends, another begins). So the direction
follows from the order that the ids show on the first page:

- a list of one page is one moment, and complete if it has as many entries as it says;
- oldest first: entries only ever move towards the first page. Read from the last page to the first, whatever was there
  all the time is met, for its page cannot pass the reader's. Entries met twice are fine; the total may change;
- newest first: what is created pushes entries towards the last page, where the forward reader meets them again; what is
  deleted pulls them back, which changes the total. So: the same total on every page, no entry twice, as many as it says;
- any other order, or no total: read forwards twice, and believed if both readings are the same.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.errors import IncompleteList
from paddock.clients.github.messages import GitHubRequest, GitHubResponse

__all__ = ["PAGE_SIZE", "ApiPage", "Identified", "read_all"]

PAGE_SIZE = 100
_MOST_PAGES = 200
_ATTEMPTS = 3


class Identified(Struct):
    """An entry of a list; ids grow with time."""

    id: int


E = TypeVar("E", bound=Identified)
PageOf = Callable[[GitHubResponse], tuple[int | None, Sequence[E]]]


class ApiPage(Struct, Generic[E], frozen=True):
    """What one answer holds. `total` is None where GitHub does not say it."""

    entries: Sequence[E]
    total: int | None
    is_last: bool

    @property
    def ids(self) -> list[int]:
        return [entry.id for entry in self.entries]


class _Reader(Generic[E]):
    def __init__(self, connection: GitHubConnection, call: GitHubRequest, page_of: PageOf[E], deadline: float) -> None:
        self._connection = connection
        self._call = call
        self._deadline = deadline
        self._page_of = page_of

    async def page(self, number: int) -> ApiPage[E]:
        params = {**(self._call.params or {}), "per_page": PAGE_SIZE, "page": number}
        call = GitHubRequest(
            installation_id=self._call.installation_id,
            priority=self._call.priority,
            method="GET",
            path=self._call.path,
            params=params,
        )
        answer = await self._connection.read(call, self._deadline)
        total, entries = self._page_of(answer)
        return ApiPage(entries, total, answer.next_page("page") is None)

    def incomplete(self, reason: str) -> IncompleteList:
        return IncompleteList(f"GET {self._call.path}: {reason}")


async def read_all(
    connection: GitHubConnection,
    call: GitHubRequest,
    page_of: PageOf[E],
    *,
    deadline: float | None = None,
) -> list[E]:
    """Every entry that was there all the time while this ran. `page_of` gives an answer's total and its entries.

    A list that moved in a way that proves nothing is read again, a few times, then IncompleteList.
    """
    deadline = connection.deadline(whole_list=True) if deadline is None else deadline
    reader = _Reader(connection, call, page_of, deadline)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _read_once(reader)
        except IncompleteList:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _read_once(reader: _Reader[E]) -> list[E]:
    first = await reader.page(1)
    if first.total is None:
        return list(first.entries) if first.is_last else await _twice(reader, first)
    if first.total <= PAGE_SIZE:
        return _checked(reader, [first])
    if first.total > PAGE_SIZE * _MOST_PAGES:
        raise reader.incomplete(f"{first.total} entries are more than can be read")
    if first.ids == sorted(first.ids):
        return await _backwards(reader, first)
    if first.ids == sorted(first.ids, reverse=True):
        return await _forwards(reader, first)
    return await _twice(reader, first)


async def _backwards(reader: _Reader[E], first: ApiPage[E]) -> list[E]:
    total = first.total or 0
    last = -(-total // PAGE_SIZE)
    seen: dict[int, E] = {}
    for number in range(last, 0, -1):
        page = await reader.page(number)
        if page.ids != sorted(page.ids):
            raise reader.incomplete(f"page {number} is in another order than the first")
        due = min(max((page.total or 0) - (number - 1) * PAGE_SIZE, 0), PAGE_SIZE)
        if len(page.entries) != due:
            raise reader.incomplete(f"page {number} holds {len(page.entries)} entries, and {due} are due")
        seen.update((entry.id, entry) for entry in page.entries)
    return [seen[key] for key in sorted(seen)]


async def _forwards(reader: _Reader[E], first: ApiPage[E]) -> list[E]:
    pages = [first]
    read = len(first.entries)
    while not _is_over(pages[-1], read):
        if len(pages) == _MOST_PAGES:
            raise reader.incomplete(f"more than {_MOST_PAGES} pages")
        pages.append(await reader.page(len(pages) + 1))
        read += len(pages[-1].entries)
    return _checked(reader, pages)


async def _twice(reader: _Reader[E], first: ApiPage[E]) -> list[E]:
    before = await _forwards(reader, first)
    after = await _forwards(reader, await reader.page(1))
    if [entry.id for entry in before] != [entry.id for entry in after]:
        raise reader.incomplete("the list changed while it was read")
    return after


def _is_over(page: ApiPage[E], read: int) -> bool:
    if page.total is None:
        return page.is_last
    return read >= page.total or not page.entries


def _checked(reader: _Reader[E], pages: Sequence[ApiPage[E]]) -> list[E]:
    """The entries of the pages, if their totals agree, none is there twice and none is missing."""
    totals = {page.total for page in pages}
    if len(totals) > 1:
        raise reader.incomplete("the total changed while it was read")
    entries = {entry.id: entry for page in pages for entry in page.entries}
    read = sum(len(page.entries) for page in pages)
    if len(entries) < read:
        raise reader.incomplete("an entry is there twice")
    total = pages[0].total
    if total is not None and read != total:
        raise reader.incomplete(f"{read} entries were read, but the total is {total}")
    return list(entries.values())
