"""`paddock accounts`: who may run jobs, how much at once, who goes first, and who changed it."""

import getpass
import socket
from typing import Any

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.exit_codes import DECLINED, judged
from paddock.cli.limit_flag import AccountName
from paddock.cli.output import Column, as_json, as_yaml, confirmed, output_flag, row_of, say, table
from paddock.cli.progress import showing

__all__ = ["command"]

_EXPIRES = 600
_WORDS = {True: "allowed", False: "denied"}


@click.group("accounts")
def command() -> None:
    """Say who may run jobs, how much at once, and who goes first.

    NAME is an account (acme), a repository (acme/app), or either by GitHub's number (id:42, id:42/id:7). A name is looked up at
    GitHub at that moment and kept as a number: whoever takes the login later inherits nothing.
    """


def _change_flags(decorated: Any) -> Any:
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        click.option("--why", default="", help="Why; kept in the audit."),
    ):
        decorated = option(decorated)
    return reach_flags(decorated)


@command.command("allow")
@click.argument("name", type=AccountName())
@_change_flags
def allow_command(name: str, why: str, dry_run: bool, yes: bool, reach: Reach) -> None:
    """Let jobs of the account or repository NAME run; those that wait go at once."""
    run(_change({"verb": "allow", "name": name, "why": why}, reach, dry_run=dry_run, yes=yes))


@command.command("deny")
@click.argument("name", type=AccountName())
@_change_flags
def deny_command(name: str, why: str, dry_run: bool, yes: bool, reach: Reach) -> None:
    """Hand out no more jobs of the account or repository NAME. What runs goes on to its end; what waits is kept."""
    run(_change({"verb": "deny", "name": name, "why": why}, reach, dry_run=dry_run, yes=yes))


@command.command("limit")
@click.argument("name", type=AccountName())
@click.option("--platform", type=click.Choice(["linux", "macos"]), default="macos", show_default=True)
@click.option("--vcpus", type=click.IntRange(1), help="How many vCPUs its jobs may hold at once.")
@click.option("--memory-mb", type=click.IntRange(1), help="How much memory they may hold at once.")
@click.option("--lift", is_flag=True, help="Take the limit of a repository away: it may hold as much as its account.")
@_change_flags
def limit_command(
    name: str,
    platform: str,
    vcpus: int | None,
    memory_mb: int | None,
    lift: bool,
    why: str,
    dry_run: bool,
    yes: bool,
    reach: Reach,
) -> None:
    """Say how much the account or repository NAME may hold at once. Lowering it ends nothing."""
    if lift == (vcpus is not None or memory_mb is not None) or (not lift and (vcpus is None or memory_mb is None)):
        raise click.UsageError("give --vcpus and --memory-mb together, or --lift alone")
    asked = {"verb": "limit", "name": name, "why": why, "platform": platform, "vcpus": vcpus, "memory_mb": memory_mb}
    run(_change(asked, reach, dry_run=dry_run, yes=yes))


@command.command("weigh")
@click.argument("name", type=AccountName())
@click.option(
    "--weight", type=click.IntRange(1, 100), help="How many parts it gets where others have one; 1 by default."
)
@click.option(
    "--priority",
    type=click.IntRange(-10, 10),
    help="Jobs of a higher priority go first; 0 by default. A job gains a step for each three minutes that it waits.",
)
@click.option("--clear", is_flag=True, help="Take both away: it goes as everybody goes.")
@_change_flags
def weigh_command(
    name: str, weight: int | None, priority: int | None, clear: bool, why: str, dry_run: bool, yes: bool, reach: Reach
) -> None:
    """Say how the account or repository NAME shares with others, and whether it goes before them. No limit is exceeded for it.

    A weight counts between accounts, or between the repositories of one account. A repository's priority counts more than its
    account's. What is not given stays as it is.
    """
    if clear == (weight is not None or priority is not None):
        raise click.UsageError("give --weight, --priority or both, or --clear alone")
    asked = {"verb": "weigh", "name": name, "why": why, "weight": weight, "priority": priority}
    run(_change(asked, reach, dry_run=dry_run, yes=yes))


@command.command("list")
@output_flag
@reach_flags
def list_command(output: str, reach: Reach) -> None:
    """List who may run jobs and who may not; `-o wide` adds who changed it, when and why, and the latest changes.

    Exits with 3 while jobs wait of somebody who is not on the list.
    """
    run(_list(output, reach))


async def _change(asked: dict[str, Any], reach: Reach, *, dry_run: bool, yes: bool) -> int:
    async with connected(reach) as reached:
        async with showing("asking dispatch"):
            token = await _token(reached)
            asked |= {"token": token, "by": await _who(reached)}
            plan = await _sent(reached, asked | {"dry_run": True})
        if dry_run:
            for number, step in enumerate(plan["steps"], 1):
                say(f"  {number}. {step}")
            say("Nothing was changed: this is a dry run.")
            return 0
        if len(plan["steps"]) == 1 and plan["steps"][0].endswith(" already"):
            say(f"{plan['steps'][0]}; nothing to do")
            return 0
        if not confirmed(plan["steps"], "Go on?", yes=yes):
            return DECLINED
        done = await _sent(reached, asked | {"dry_run": False})
        say(done["steps"][0])
        return 0


async def _sent(reached: Reached, asked: dict[str, Any]) -> Any:
    answer = await reached.ledger.post("allow-list", asked)
    if answer is None:
        raise Problem(f"the dispatch service at {reached.ledger.where} has no allow list: update it")
    if answer["refused"]:
        raise Problem(answer["refused"])
    return answer


async def _page(reached: Reached) -> Any:
    page = await reached.ledger.get("allow-list?changes=50")
    if page is None:
        raise Problem(f"the dispatch service at {reached.ledger.where} has no allow list: update it")
    return page


async def _token(reached: Reached) -> str:
    """The proof that the cluster lets us change the list: a token of dispatch's own account, for this alone."""
    from paddock.kube.errors import ForbiddenError, NotFoundError

    access = (await _page(reached))["access"]
    account, namespace = access["service_account"], access["namespace"]
    try:
        token, _ = await reached.client.create_token(
            account, namespace, audiences=(access["audience"],), expiration_seconds=_EXPIRES
        )
    except ForbiddenError as error:
        raise Problem(
            f"you may not change the list: that takes the right to create serviceaccounts/token of {account} in"
            f" {namespace} ({error})"
        ) from error
    except NotFoundError as error:
        raise Problem(
            f"there is no ServiceAccount {account} in {namespace}: is this the cluster of that dispatch? See its"
            " --accounts-principal"
        ) from error
    return token.reveal()


async def _who(reached: Reached) -> str:
    """Who the cluster says we are; where it cannot say, the name at this machine."""
    import msgspec

    from paddock.kube.errors import KubeError

    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        raw = await reached.client.connection.request("POST", path, body=msgspec.json.encode(body), timeout=10.0)
        known = msgspec.json.decode(raw)["status"]["userInfo"]["username"]
    except (KubeError, KeyError, TypeError, msgspec.DecodeError):
        known = ""
    try:
        here = f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        here = "somebody"
    return f"{known} ({here})"[:200] if known else here[:200]


async def _list(output: str, reach: Reach) -> int:
    async with connected(reach) as reached, showing("reading the allow list"):
        page = await _page(reached)
        seen = await reached.ledger.get("accounts") or []
    rows = _rows(page, seen)
    match output:
        case "json":
            say(as_json(rows))
        case "yaml":
            say(as_yaml(rows))
        case "name":
            say("\n".join(row["name"] for row in rows))
        case _:
            _show(rows, page["changes"], output)
    return judged(needs_a_person=any(row["waits"] and row["standing"] == "not on the list" for row in rows))


def _rows(page: Any, seen: list[Any]) -> list[dict[str, Any]]:
    """Everybody on the list, and who waits without being on it."""
    limits: dict[tuple[int, int], list[str]] = {}
    waits: dict[int, int] = {}
    for one in seen:
        size = f"{one['platform']} {one['limit_vcpus']} vCPU {one['limit_memory_mb']} MB"
        limits.setdefault((one["account_id"], 0), []).append(size)
        waits[one["account_id"]] = waits.get(one["account_id"], 0) + one["queued"]
    for one in page["repository_limits"]:
        size = f"{one['platform']} {one['vcpus']} vCPU {one['memory_mb']} MB"
        limits.setdefault((one["account_id"], one["repository_id"]), []).append(size)
    rows = [
        {
            "name": one["name"],
            "standing": _WORDS[one["allowed"]],
            "waits": 0 if one["repository_id"] else waits.get(one["account_id"], 0),
            "limits": limits.pop((one["account_id"], one["repository_id"]), []),
            "account_id": one["account_id"],
            "repository_id": one["repository_id"],
            "changed_at": one["changed_at"],
            "changed_by": one["changed_by"],
            "changed_why": one["changed_why"],
        }
        for one in page["entries"]
    ]
    listed = {row["account_id"] for row in rows}
    named = {one["account_id"]: one["login"] for one in seen}
    rows += [
        _unlisted(one, limits)
        for one in page["repository_limits"]
        if (one["account_id"], one["repository_id"]) in limits
    ]
    rows += [
        {
            "name": login,
            "standing": "not on the list",
            "waits": waits.get(account_id, 0),
            "limits": limits.get((account_id, 0), []),
            "account_id": account_id,
            "repository_id": 0,
            "changed_at": None,
            "changed_by": "",
            "changed_why": "",
        }
        for account_id, login in named.items()
        if account_id not in listed
    ]
    # An older dispatch tells no precedence.
    said = {(one["account_id"], one["repository_id"]): one for one in page.get("precedence", [])}
    shown = {(row["account_id"], row["repository_id"]) for row in rows}
    rows += [_unlisted(one, limits) for number, one in said.items() if number not in shown]
    for row in rows:
        one = said.get((row["account_id"], row["repository_id"]), {})
        row |= {"weight": one.get("weight"), "priority": one.get("priority")}
    return rows


def _unlisted(one: Any, limits: dict[tuple[int, int], list[str]]) -> dict[str, Any]:
    """Who has a limit or a precedence of its own, and no line on the list."""
    return {
        "name": one["name"],
        "standing": "as its account" if one["repository_id"] else "not on the list",
        "waits": 0,
        "limits": limits.pop((one["account_id"], one["repository_id"]), []),
        "account_id": one["account_id"],
        "repository_id": one["repository_id"],
        "changed_at": None,
        "changed_by": "",
        "changed_why": "",
    }


def _show(rows: list[dict[str, Any]], changes: list[Any], output: str) -> None:
    if not rows:
        say("Nobody may run jobs yet: `paddock accounts allow NAME` lets an account or a repository.")
        return
    titles = [column.title for column in _COLUMNS if output == "wide" or not column.wide]
    say(table([titles, *(row_of(row, _COLUMNS, output) for row in rows)]))
    if output == "wide" and changes:
        say("\nlatest changes")
        for one in changes:
            was = one["was"] or "nothing"
            say(f"  {one['at'][:19]}  {one['name']}  {was} → {one['became']}  {one['by']}: {one['why']}")


_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("NAME", lambda row: row["name"]),
    Column("MAY RUN JOBS", lambda row: row["standing"]),
    Column("WAIT", lambda row: row["waits"] or ""),
    Column("LIMITS", lambda row: "; ".join(row["limits"])),
    Column("WEIGHT", lambda row: "" if row["weight"] is None else row["weight"]),
    Column("PRIORITY", lambda row: "" if row["priority"] is None else row["priority"]),
    Column("ACCOUNT", lambda row: row["account_id"]),
    Column("REPOSITORY", lambda row: row["repository_id"] or "", wide=True),
    Column("CHANGED", lambda row: (row["changed_at"] or "")[:19], wide=True),
    Column("BY", lambda row: row["changed_by"], wide=True),
    Column("WHY", lambda row: row["changed_why"], wide=True),
)
