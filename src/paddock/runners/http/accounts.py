"""`/api/v1/allow-list`: who may run jobs, and the one way to change it from outside.

To read it is as free as the rest of what operators read. To change it takes a token of one ServiceAccount (dispatch's own,
which owns the list anyway) for an audience of its own: whoever may make such a token in the cluster may change the list, and
the API server decides and records that. The person's name goes into the audit as the caller gives it.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.explanation import span
from paddock.base.http_requests import RefusedError, answer, decode, guarded, number_of, read_body, refusal
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.github import GitHub, GitHubError
from paddock.runners.api import ACCOUNTS_AUDIENCE, Platform
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import IdentityError, Unreachable
from paddock.runners.http.internal import Authenticator
from paddock.runners.http.readonly import PREFIX
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.ledger.allow_list import AccountChange, ListEntry, RepositoryLimit
from paddock.runners.ledger.precedence import LARGEST_WEIGHT, PRIORITIES, Precedence
from paddock.runners.ledger.rows import STEP_SECONDS
from paddock.runners.tenants.names import Named, UnknownNameError, resolve, resolve_listed

__all__ = ["AllowListPage", "AskedChange", "ChangeAccess", "ChangeAnswer", "accounts_routes"]

PATH: Final = f"{PREFIX}/allow-list"
_BODY_LIMIT: Final = 16 * 1024
_MOST_CHANGES: Final = 1000
_Text = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
_Size = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_log = get_logger("accounts")


class ChangeAccess(Struct, frozen=True):
    """Whose token, and for which audience, a change has to show."""

    namespace: str
    service_account: str
    audience: str = ACCOUNTS_AUDIENCE


class AllowListPage(Struct, frozen=True):
    """The list, the limits of repositories, the latest changes (newest first), what a change has to show, and who goes first."""

    entries: Sequence[ListEntry]
    repository_limits: Sequence[RepositoryLimit]
    changes: Sequence[AccountChange]
    access: ChangeAccess
    precedence: Sequence[Precedence] = ()


class AskedChange(Struct, frozen=True, kw_only=True):
    """A change. With `dry_run` it is only said what it would do. Without `vcpus` a repository's own limit is lifted; to
    `weigh` without `weight` and `priority` takes both away.
    """

    token: str
    verb: Literal["allow", "deny", "limit", "weigh"]
    name: _Text
    by: _Text
    why: _Text = ""
    dry_run: bool = True
    platform: Platform = "macos"
    vcpus: _Size | None = None
    memory_mb: _Size | None = None
    weight: int | None = None
    priority: int | None = None


class ChangeAnswer(Struct, frozen=True):
    """What was done, or would be, in sentences. `refused` says why it cannot be, with the remedy."""

    steps: tuple[str, ...] = ()
    changed: bool = False
    refused: str = ""


class _RefusedChangeError(Exception):
    """The change cannot be made: the message says why, and what to do."""


def accounts_routes(ledger: Ledger, github: GitHub, identity: Authenticator, settings: DispatchSettings) -> list[Route]:
    """GET shows, POST changes. 403 without the right token; 503 with Retry-After while the ledger is away."""
    _, _, namespace, account = settings.accounts_principal.split(":")
    access = ChangeAccess(namespace, account)
    changes = _Changes(ledger, github, settings)

    async def show(request: Request) -> Response:
        limit = number_of(request, "changes", 100, 0, _MOST_CHANGES)
        listed = ledger.allow_list
        return answer(
            AllowListPage(
                await listed.entries(),
                await listed.repository_limits(),
                await listed.changes(limit),
                access,
                await ledger.precedence.all(),
            )
        )

    async def change(request: Request) -> Response:
        body = await read_body(request, limit=_BODY_LIMIT, seconds=settings.body_timeout)
        asked = decode(body, AskedChange)
        await _check(asked.token)
        try:
            return answer(await changes.make(asked))
        except (_RefusedChangeError, UnknownNameError) as error:
            return answer(ChangeAnswer(refused=str(error)))
        except GitHubError as error:
            sentence = (
                f"GitHub cannot be asked who {asked.name} is now ({error}): try again, or give the number (id:42)"
            )
            return answer(ChangeAnswer(refused=sentence))

    async def _check(token: str) -> None:
        sentence = f"show a token of {settings.accounts_principal} for the audience {ACCOUNTS_AUDIENCE}"
        try:
            principal = await identity.principal(Secret(token or "none"), ACCOUNTS_AUDIENCE)
        except Unreachable:
            sentence = "the token cannot be verified now: ask again"
            raise RefusedError(refusal(503, "no_cluster", sentence, headers={"Retry-After": "2"})) from None
        except IdentityError:
            _log.warning("a change of the allow list was refused: its token is not accepted")
            raise RefusedError(refusal(403, "not_allowed", sentence)) from None
        if principal.username != settings.accounts_principal:
            _log.warning("a change of the allow list was refused", principal=principal.username)
            raise RefusedError(refusal(403, "not_allowed", sentence))

    return [
        Route(PATH, guarded(show, LedgerError), methods=["GET"]),
        Route(PATH, guarded(change, LedgerError), methods=["POST"]),
    ]


class _Changes:
    def __init__(self, ledger: Ledger, github: GitHub, settings: DispatchSettings) -> None:
        self._ledger = ledger
        self._github = github
        self._settings = settings

    async def make(self, asked: AskedChange) -> ChangeAnswer:
        find = resolve_listed if asked.verb == "deny" else resolve
        named = await find(asked.name, self._ledger, self._github)
        if asked.verb == "limit":
            return await self._limit(asked, named)
        if asked.verb == "weigh":
            return await self._weigh(asked, named)
        wanted = "allowed" if asked.verb == "allow" else "denied"
        if await self._ledger.allow_list.standing(named.account_id, named.repository_id) == wanted:
            return ChangeAnswer((f"{named.sentence} is {wanted} already",))
        waiting, held = await self._ledger.allow_list.affected(named.account_id, named.repository_id)
        if asked.verb == "allow":
            steps = (f"{named.sentence} may run jobs", f"{_jobs(waiting)} of it that wait go as soon as a Pod is free")
        else:
            steps = (
                f"no new job of {named.sentence} is handed out; {_jobs(waiting)} of it stay where they wait",
                f"{_jobs(held)} of it that run or are being handed over go on to their end",
            )
        if asked.dry_run:
            return ChangeAnswer(steps)
        said = {"repository_id": named.repository_id, "by": asked.by or "somebody", "why": asked.why or "asked for"}
        change = self._ledger.allow_list.allow if asked.verb == "allow" else self._ledger.allow_list.deny
        changed = await change(named.account_id, named.name, **said)
        _log.info("the allow list was changed", name=named.name, account=named.account_id, became=wanted, by=asked.by)
        return ChangeAnswer(steps, changed=changed)

    async def _limit(self, asked: AskedChange, named: Named) -> ChangeAnswer:
        by, why = asked.by or "somebody", asked.why or "asked for"
        if (asked.vcpus is None) != (asked.memory_mb is None):
            raise _RefusedChangeError("give both --vcpus and --memory-mb, or neither to lift a repository's own limit")
        if asked.vcpus is None or asked.memory_mb is None:
            if not named.repository_id:
                raise _RefusedChangeError("an account always has a limit: give --vcpus and --memory-mb")
            steps = (f"{named.sentence} may hold as much as its account on {asked.platform}",)
            if asked.dry_run:
                return ChangeAnswer(steps)
            lifted = await self._ledger.allow_list.lift_repository_limit(
                named.account_id, named.repository_id, asked.platform, by=by, why=why
            )
            return ChangeAnswer(steps, changed=lifted)
        size = f"{asked.vcpus} vCPU and {asked.memory_mb} MB on {asked.platform}"
        steps = (f"{named.sentence} may hold {size} at once; what it holds already goes on to its end",)
        if named.repository_id:
            if not asked.dry_run:
                await self._ledger.allow_list.limit_repository(
                    named.account_id, named.repository_id, named.name, asked.platform,
                    vcpus=asked.vcpus, memory_mb=asked.memory_mb, by=by, why=why,
                )  # fmt: skip
            return ChangeAnswer(steps, changed=not asked.dry_run)
        await self._check_free(named, asked.platform)
        if not asked.dry_run:
            if await self._ledger.accounts.get(named.account_id) is None:
                await self._ledger.accounts.enrol(named.account_id, named.login, named.installation_id)
            await self._ledger.limits.set(
                named.account_id, asked.platform, vcpus=asked.vcpus, memory_mb=asked.memory_mb, by=by, why=why
            )
            await self._ledger.allow_list.hint(named.account_id)
        return ChangeAnswer(steps, changed=not asked.dry_run)

    async def _weigh(self, asked: AskedChange, named: Named) -> ChangeAnswer:
        _check_range("weight", asked.weight, 1, LARGEST_WEIGHT)
        _check_range("priority", asked.priority, *PRIORITIES)
        said = {"repository_id": named.repository_id, "by": asked.by or "somebody", "why": asked.why or "asked for"}
        before = await self._ledger.precedence.of(named.account_id, named.repository_id)
        if asked.weight is None and asked.priority is None:
            if before is None:
                return ChangeAnswer((f"{named.sentence} has no weight and no priority of its own already",))
            steps = (f"{named.sentence} has no weight and no priority of its own",)
            changed = not asked.dry_run and await self._ledger.precedence.clear(named.account_id, **said)
            return ChangeAnswer(steps, changed=changed)
        steps = tuple(_said(named, asked.weight, asked.priority))
        had = (None, None) if before is None else (before.weight, before.priority)
        if (asked.weight in (None, had[0])) and (asked.priority in (None, had[1])):
            return ChangeAnswer((f"{'; '.join(steps)} already",))
        if asked.dry_run:
            return ChangeAnswer(steps)
        changed = await self._ledger.precedence.set(
            named.account_id, named.name, weight=asked.weight, priority=asked.priority, **said
        )
        _log.info("a precedence was changed", name=named.name, account=named.account_id, by=asked.by)
        return ChangeAnswer(steps, changed=changed)

    async def _check_free(self, named: Named, platform: str) -> None:
        """The account is known, and the settings say nothing else: they would have the last word."""
        for configured in self._settings.limits:
            bound = await self._ledger.allow_list.bound(configured.login) or await self._ledger.allow_list.bound(
                f"limit {configured.login}"
            )
            if bound is not None and bound.account_id == named.account_id and configured.platform == platform:
                raise _RefusedChangeError(
                    f"the settings name this limit (--limit {configured.login}/{platform}): change it there, or take it out"
                )
        if not named.login and await self._ledger.accounts.get(named.account_id) is None:
            raise _RefusedChangeError(f"{named.sentence} was never heard of: install the GitHub App there first")


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _check_range(field: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise _RefusedChangeError(f"{field} must be from {least} to {most}, and {value} was given")


def _said(named: Named, weight: int | None, priority: int | None) -> Iterator[str]:
    """What it means, a sentence for each of the two."""
    if weight is not None:
        among = "the repositories of its account" if named.repository_id else "accounts that wait"
        yield f"{named.sentence} gets {weight} part{'' if weight == 1 else 's'} among {among}, each of which has 1 by default"
    if priority is not None:
        yield f"jobs of {named.sentence} wait with priority {priority} (0 by default, one step more every {span(STEP_SECONDS)})"
