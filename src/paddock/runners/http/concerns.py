"""`/api/v1/concerns`: what a dispatch process itself sees of what it stands on: the database, its disk, whom it trusts.

Status, page, `/healthz` and `paddock doctor` all ask this. It changes nothing.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.explanation import utc
from paddock.base.http_requests import answer
from paddock.base.refusals import Refusal
from paddock.runners.http.concern import Concern
from paddock.runners.http.readonly import PREFIX
from paddock.runners.ledger.encryption import transport_problem
from paddock.runners.ledger.opening import Unopened

__all__ = [
    "blind_concern",
    "certificate_concern",
    "concerns_route",
    "database_concern",
    "space_concern",
    "unopened_concern",
    "writes_concern",
]

_SOON: Final = timedelta(days=3)
"""Our own certificates are renewed ten days before their end, cert-manager's at a third of their life."""


_LEAST_SPACE: Final = 2 * 2**30
"""Bytes. Postgres takes a segment of 16 MB at a time, and up to 1 GB of them between two checkpoints."""


def writes_concern(refusal: Refusal | None, whose: str, effect: str) -> list[Concern]:
    """What it means that a database refuses writes; nothing where it does not."""
    if refusal is None:
        return []
    again = f" (refused {refusal.count} times so far)" if refusal.count > 1 else ""
    found = f"{whose} takes no writes, so {effect}: {refusal.why}{again}"
    fix = "make room on its disk, or see why it does not answer; what was refused is tried again by itself"
    return [Concern(about="database", found=found, fix=fix, weight="stops", since=refusal.since)]


def unopened_concern(unopened: Unopened | None, now: datetime) -> list[Concern]:
    """What it means that the ledger was not opened yet; nothing where it was."""
    if unopened is None:
        return []
    why = unopened.why or "the first attempt is under way"
    left = 0.0 if unopened.next_attempt is None else max(0.0, (unopened.next_attempt - now).total_seconds())
    following = f"in {left:.0f} s" if left >= 1 else "now"
    found = f"the ledger's database does not answer, so no job is taken, handed out or healed: {why}"
    fix = (
        "see that the Postgres of --dsn runs and lets this user in; dispatch tries again by itself "
        f"({following}) and serves jobs as soon as it answers"
    )
    return [Concern(about="database", found=found, fix=fix, weight="stops", since=unopened.since)]


def blind_concern(problem: str | None) -> list[Concern]:
    """What it means that a cache does not follow the cluster; nothing where all do."""
    if problem is None:
        return []
    found = f"dispatch does not see what changes in the cluster: {problem}"
    fix = "see why the API server does not answer dispatch; it is asked again by itself"
    return [Concern(about="API server", found=found, fix=fix, weight="soon")]


def space_concern(folder: str, free: int) -> list[Concern]:
    """What it means that so many bytes are left where the database is."""
    if free >= _LEAST_SPACE:
        return []
    found = f"{free / 2**30:.1f} GiB are left on the disk of {folder}: when it is full, no job is claimed and no Mac is healed"
    return [Concern(about="disk", found=found, fix=f"make room on the disk of {folder}", weight="soon")]


def concerns_route(look: Callable[[], Sequence[Concern]]) -> Route:
    async def concerns(_: Request) -> Response:
        return answer(list(look()))

    return Route(f"{PREFIX}/concerns", concerns, methods=["GET"])


def database_concern(dsn: str) -> Concern:
    problem = transport_problem(dsn)
    if not problem:
        return Concern(about="database's TLS", found="the server proves its name, or is on this machine")
    found, _, fix = problem.partition(": ")
    return Concern(about="database's TLS", found=found, fix=fix)


def certificate_concern(certificate: Path | None, now: datetime) -> Concern:
    """How dispatch's own certificate is; None: it has no TLS listener for the operator."""
    about = "operator to dispatch"
    if certificate is None:
        return Concern(
            about=about,
            found="the operator comes in without TLS: whoever listens on the way can retire Pods until its token ends",
            fix="set dispatch.tls.enabled in the chart, or give dispatch --internal-bind-address and a certificate",
        )
    waits = "see the leading operator's log, or cert-manager's: kubectl get certificates"
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return Concern(
            about=about, found="dispatch has no certificate that can be read, so no Pod can be retired", fix=waits
        )
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    if now < begins:
        late = f"dispatch's certificate begins only at {utc(begins)}, and its clock says {utc(now)}"
        return Concern(about=about, found=late, fix="run NTP on the Nodes of the operator and of dispatch")
    if now >= ends:
        over = f"dispatch's certificate has expired at {utc(ends)}, so no Pod can be retired"
        return Concern(about=about, found=over, fix=waits)
    if ends - now < _SOON:
        return Concern(about=about, found=f"dispatch's certificate ends at {utc(ends)} and is not renewed", fix=waits)
    return Concern(about=about, found=f"TLS, by a certificate until {utc(ends)}")
