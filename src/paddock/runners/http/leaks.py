"""`/api/v1/leaks`: what every worker would heal now, and what it looks at with suspicion. It changes nothing."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.http_requests import answer
from paddock.runners.healing.healer import Healer
from paddock.runners.http.readonly import PREFIX

__all__ = ["Leak", "leaks_route"]


class Leak(Struct, frozen=True, kw_only=True):
    """`proven` is healed at the next pass, unless its kind is only reported; the rest is watched."""

    worker: str
    kind: str
    subject: str
    sentence: str
    proven: bool
    seconds: float = 0.0


def leaks_route(healer: Healer) -> Route:
    async def leaks(_: Request) -> Response:
        found: list[Leak] = []
        for worker, report in (await healer.plan()).items():
            found += [
                Leak(
                    worker=worker,
                    kind=heal.kind,
                    subject=heal.subject,
                    sentence=heal.sentence,
                    proven=True,
                    seconds=heal.seconds,
                )
                for heal in (*report.healed, *report.reported)
            ]
            found += [
                Leak(worker=worker, kind="suspect", subject="", sentence=sentence, proven=False)
                for sentence in (*report.refused, *report.failed)
            ]
        return answer(found)

    return Route(f"{PREFIX}/leaks", leaks, methods=["GET"])
