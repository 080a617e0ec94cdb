"""The set of one source at GitHub: found, made, changed in place, or replaced, until it is what its pool wants.

`desired` decides. Each step can be repeated; `docs/design/scale-sets.md` has the table of places where the process may die.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import ScaleSet, ScaleSets
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets import decisions
from paddock.runners.scale_sets.book import JobBook
from paddock.runners.scale_sets.decisions import Failure, Found
from paddock.runners.scale_sets.desired import (
    Change,
    DesiredSet,
    change,
    desired,
    differences,
    is_the_one_asked_for,
    keeps_labels,
    replaced,
    unused,
)

__all__ = ["RefusedError", "SetProvisioning"]

log = get_logger("scale sets")


class RefusedError(Exception):
    """Only a person can mend it."""


class SetProvisioning:
    """Keeps the set of one source. `source` is its row as it was last written, under the lease that it was given with.

    `gone` says whether a pool is known not to exist any more. `refusal` is why the set is not what the pool wants and cannot
    become it: until a person mends that, it takes no new jobs. A change that GitHub did not take, for whatever reason, is put
    off: the set goes on as it was.
    """

    def __init__(
        self,
        scale_sets: ScaleSets,
        book: JobBook,
        clock: Clock,
        place: RunnerPlace,
        source: Source,
        *,
        gone: Callable[[str], bool],
        again_in: float,
    ) -> None:
        self._github = scale_sets
        self._book = book
        self._clock = clock
        self._place = place
        self._gone = gone
        self._again_in = again_in
        self.source = source
        self.refusal = ""
        self._refused_at = 0.0
        self._refused_for = again_in
        self._refused: DesiredSet | None = None
        self._put_off: Failure | None = None
        self._failures = 0
        self._found: ScaleSet | None = None
        self._owner = ""
        self._dropped: tuple[str, ...] = ()

    # What is so

    def due(self, pool: RunnerPool) -> Change:
        """What the set needs now. A refusal is not asked about again before its time, unless the pool was changed."""
        if self._found is None:
            return Change.NONE
        wanted = desired(pool, self._owner)
        needed = change(self._found, wanted, self.source)
        again = self._clock.monotonic() - self._refused_at >= self._refused_for
        return Change.NONE if wanted == self._refused and not again else needed

    def is_replaced(self, pool: RunnerPool) -> bool:
        """Whether it was decided, and written down, that the set goes when its last job is over."""
        return self.source.replacing_since is not None and self.due(pool) is Change.REPLACE

    def takes_no_new_jobs(self, pool: RunnerPool) -> bool:
        return bool(self.refusal) or self.due(pool) is Change.REPLACE

    def needs_a_person(self) -> bool:
        return bool(self.refusal) or (self._put_off is not None and self._put_off.state == "Refused")

    def sentence(self, pool: RunnerPool, assigned: int) -> str:
        """What people should know of the set while it is listened to; empty where it is what the pool wants."""
        if self._found is None or self.refusal:
            return self.refusal
        since = self.source.replacing_since
        if since is not None and self.is_replaced(pool):
            return replaced(self._found, desired(pool, self._owner), self.source, since, assigned)
        if self._put_off is not None:
            return self._put_off.sentence
        dropped = ", ".join(self._dropped)
        return f"GitHub did not keep the labels {dropped}: jobs must not ask for them" if dropped else ""

    # What is done

    async def ensure(self, pool: RunnerPool, *, make: bool = True) -> ScaleSet | None:
        """The set that is listened to: the recorded one, whatever the pool wants by now; else found by its name, or made.

        Without `make` only a set that is there is given, for its last jobs: None once it is gone and no job is open.
        RefusedError where there is none to be had.
        """
        self._owner = await self._book.owner()
        if self.source.scale_set_id is not None:
            with suppress(github.NotFound):
                self._found = await self._github.get(self._place, self.source.scale_set_id)
                self._dropped = decisions.labels_dropped(pool, self._found)
                return self._found
            # GitHub deleted it, or we did and died before that was written: what it was asked to be is over, too.
            await self.record(
                scale_set_id=None, session_id="", asked_labels=None, asked_group=None, replacing_since=None
            )
        if not make:
            self._found = None
            if await self._book.open(self.source):
                raise RefusedError("the scale set is gone at GitHub, and some of its jobs are not over here")
            return None
        self._found = await self._find_or_make(pool)
        self._dropped = decisions.labels_dropped(pool, self._found)
        return self._found

    async def follow(self, pool: RunnerPool) -> None:
        """Bring the set closer to what the pool wants. Afterwards it is that, or is being replaced, or `refusal` says why not,
        or it is put off. Nothing of GitHub's is raised: a set that cannot be changed is listened to all the same.
        """
        wanted = desired(pool, self._owner)
        refusal = self.refusal if wanted == self._refused else ""
        try:
            await self._follow(pool, wanted)
        except github.GitHubError as error:
            self._failures += 1
            self._put_off = decisions.put_off(error, self._place, failures=self._failures)
            log.warning("a scale set is not changed yet", pool=self.source.pool, why=self._put_off.sentence)
            # What was refused before stays so: that it could not be asked again proves nothing.
            self.refusal, self._refused = refusal, wanted
            self._refused_at, self._refused_for = self._clock.monotonic(), self._put_off.again_in

    async def _follow(self, pool: RunnerPool, wanted: DesiredSet) -> None:
        match self.due(pool):
            case Change.UPDATE:
                await self._update(wanted)
            case Change.REPLACE if self.source.replacing_since is None:
                await self._begin_to_replace(wanted)
            case Change.NONE if wanted != self._refused:
                self._begin_anew()
                if self.source.replacing_since is not None:
                    await self.record(replacing_since=None)  # the pool wants again what it had
            case _:
                pass
        if self._refused is None:
            self._failures = 0
        if self._found is not None and wanted.was_asked(self.source):
            self._dropped = decisions.labels_dropped(pool, self._found)

    async def is_unused(self) -> bool:
        """Whether no job is left of this set: none is open here, and GitHub knows of none."""
        if self.source.scale_set_id is None:
            return True
        if await self._book.open(self.source):
            return False
        try:
            return unused((await self._github.get(self._place, self.source.scale_set_id)).statistics)
        except github.GitHubError as error:
            # A failed read is no proof; whether the source is lost is for the poll to say.
            log.info("the statistics of a scale set were not read", pool=self.source.pool, error=str(error))
            return isinstance(error, github.NotFound)

    async def delete(self) -> bool:
        """Delete the set at GitHub if nothing is left of it; False where a job is. LeaseLostError, GitHubError.

        The caller has closed the session: so no job can be assigned between look and delete.
        """
        scale_set_id = self.source.scale_set_id
        if scale_set_id is None:
            return True
        if not await self.is_unused():
            return False
        await self.record()  # a set that went to another source meanwhile is not ours to delete
        try:
            await self._github.delete(self._place, scale_set_id)
        except github.Conflict as error:
            log.info("a scale set has a job after all", pool=self.source.pool, error=str(error))
            return False
        # Died here: the number is of a set that is gone, and the next listener looks for one by name.
        await self.record(scale_set_id=None, session_id="", asked_labels=None, asked_group=None, replacing_since=None)
        self._found = None
        return True

    async def record(self, **changes: object) -> None:
        """Write the row with these changes; it is as it was if that fails."""
        changed = msgspec.structs.replace(self.source, **changes)
        await self._book.record(changed)
        self.source = changed

    async def _find_or_make(self, pool: RunnerPool) -> ScaleSet:
        wanted = desired(pool, self._owner)
        group_id = await self._github.group(self._place, wanted.group)
        if group_id is None:
            raise RefusedError(decisions.no_group(wanted.group, self._place))
        found = await self._github.find(self._place, group_id, wanted.name)
        match decisions.judge_found(found, recorded=None, owner=self._owner):
            case Found.ANOTHERS if found and is_the_one_asked_for(found, wanted, self.source, self._clock.now()):
                await self._asked(wanted, scale_set_id=found.scale_set_id, session_id="")
            case Found.ANOTHERS:
                raise RefusedError(decisions.not_ours(wanted.name, wanted.group, self._place))
            case Found.OURS:
                assert found is not None
                await self._take_over(found)
            case Found.NONE:
                found = await self._make(wanted, group_id)
        assert found is not None
        return found

    async def _make(self, wanted: DesiredSet, group_id: int) -> ScaleSet:
        """A new set. That it is asked for is written first: died between the two, or the answer lost, the next look finds it by
        name and knows it as ours by its label; where GitHub drops labels, by what was written.
        """
        before = self.source
        if before.replacing_since is None or not wanted.was_asked(before):
            await self._asked(wanted, replacing_since=self._clock.now())
        try:
            found = await self._github.create(self._place, name=wanted.name, group_id=group_id, labels=wanted.labels)
        except github.GitHubError as error:
            unknown = isinstance(error, github.Unavailable) and error.effect_unknown
            if before.replacing_since is None and not unknown:
                # This try made none, and no earlier one: a set of that name that is found later is another's.
                await self.record(asked_labels=None, asked_group=None, replacing_since=None)
            raise
        await self._asked(wanted, scale_set_id=found.scale_set_id, session_id="")
        return found

    async def _take_over(self, found: ScaleSet) -> None:
        """A set of ours that this source has no record of: made before we died, or of a pool that had this label before."""
        number = found.scale_set_id
        holder = await self._book.holder(self.source, number)
        if holder is None:
            # What it was asked to be is not known: `follow` compares it with what the pool wants.
            await self.record(
                scale_set_id=number, session_id="", asked_labels=None, asked_group=None, replacing_since=None
            )
        elif self._gone(holder):
            log.warning("a scale set goes to another pool", scale_set=found.name, was=holder, pool=self.source.pool)
            self.source = await self._book.inherit(self.source, number)
            if self.source.scale_set_id is None:
                raise github.Unavailable("the scale set was given up meanwhile; it is looked up again")
        else:
            raise RefusedError(decisions.still_anothers(found.name, holder))

    async def _update(self, wanted: DesiredSet) -> None:
        """Labels and group in place. Died after the change: the next listener finds it made, and writes that down."""
        found = self._found
        assert found is not None
        self._begin_anew()
        group_id = await self._github.group(self._place, wanted.group)
        if group_id is None:
            return self._refuse(wanted, decisions.no_group(wanted.group, self._place))
        another_group = found.group_id != group_id
        if another_group or not wanted.is_offered_by(found):
            log.info("a scale set is changed", pool=self.source.pool, what=differences(found, wanted, self.source))
            try:
                await self._github.update(
                    self._place,
                    found.scale_set_id,
                    group_id=group_id if another_group else None,
                    labels=None if wanted.is_offered_by(found) else wanted.labels,
                )
            except github.Conflict:
                return self._refuse(wanted, decisions.not_ours(wanted.name, wanted.group, self._place))
            except (github.Invalid, github.Forbidden, github.NotFound) as error:
                # If it is the App that is refused, or the set that is gone, the look that follows says so.
                log.info("GitHub does not change a scale set in place", pool=self.source.pool, error=str(error))
            # An answer of 200 says little: what the set shows counts.
            self._found = await self._github.get(self._place, found.scale_set_id)
        kept = wanted.is_offered_by(self._found or found) or not keeps_labels(found, self._owner)
        if kept and (self._found or found).group_id == group_id:
            await self._asked(wanted)
        else:
            await self._begin_to_replace(wanted)
        return None

    async def _begin_to_replace(self, wanted: DesiredSet) -> None:
        """The set takes no new jobs from now on; unless the name that the next one would have is somebody else's, or another
        pool's that stands, which is said while there is still a set to go back to.
        """
        assert self._found is not None
        self._begin_anew()
        group_id = await self._github.group(self._place, wanted.group)
        if group_id is None:
            return self._refuse(wanted, decisions.no_group(wanted.group, self._place))
        named = await self._github.find(self._place, group_id, wanted.name)
        recorded = self.source.scale_set_id
        if decisions.judge_found(named, recorded=recorded, owner=self._owner) is Found.ANOTHERS:
            return self._refuse(wanted, decisions.not_ours(wanted.name, wanted.group, self._place))
        if named is not None and named.scale_set_id != recorded:
            holder = await self._book.holder(self.source, named.scale_set_id)
            if holder is not None and not self._gone(holder):
                return self._refuse(wanted, decisions.still_anothers(named.name, holder))
        now: datetime = self._clock.now()
        what = differences(self._found, wanted, self.source)
        log.warning("a scale set is replaced", pool=self.source.pool, name=self._found.name, what=what)
        await self.record(replacing_since=now)
        return None

    async def _asked(self, wanted: DesiredSet, **changes: object) -> None:
        asked = {"asked_labels": list(wanted.labels), "asked_group": wanted.group, "replacing_since": None}
        await self.record(**{**asked, **changes})

    def _refuse(self, wanted: DesiredSet, why: str) -> None:
        log.warning("a scale set cannot be changed", pool=self.source.pool, why=why)
        self.refusal, self._refused = why, wanted
        self._refused_at, self._refused_for = self._clock.monotonic(), self._again_in

    def _begin_anew(self) -> None:
        self.refusal, self._refused, self._put_off = "", None, None
