"""What becomes of a Mac's host once its machine is deleted, as it is said before anybody agrees to it. Pure."""

from dataclasses import dataclass
from typing import Literal

from paddock.hosts.delete import RecordRelease, SkipRelease, ending
from paddock.views.finding import Mac

__all__ = ["Fate", "fate"]

_ANY_POOL = "pool-"
"""Which pool is the operator's business: here it counts only that there is one."""


@dataclass(frozen=True, slots=True)
class Fate:
    """`kept`: nothing is done to the host, because it is not this machine's to give back, or because there is none."""

    becomes: Literal["pooled", "terminated", "kept"]
    sentence: str


def fate(mac: Mac, *, terminate: bool = False) -> Fate:
    """What the operator does about the host, by the very function that it decides with; `terminate` where a person asks for that.

    A machine whose annotation or source says so is terminated whatever the verb is, and a release that is recorded goes on as
    it was recorded.
    """
    assert mac.machine is not None
    if mac.host is None:
        return Fate("kept", "nothing more: it has no host")
    host = mac.host
    where = f"host {host.metadata.name} ({host.status.type}, {host.spec.zone})"
    match ending(mac.machine, host, _ANY_POOL):
        case SkipRelease("ReleaseRecorded", _) if host.spec.release is not None:
            for_good = host.spec.release.policy == "terminate"
            sentence = f"{where} is on its way already: it {_end(for_good=for_good)}"
            return Fate("terminated" if for_good else "pooled", sentence)
        case SkipRelease(_, message):
            return Fate("kept", f"{where} is not touched: {message}")
        case RecordRelease("terminate", _) if not terminate:
            said = "its machine says so, by its release policy or because it was ordered"
            return Fate("terminated", f"{where} {_end(for_good=True)} ({said})")
        case _:
            return Fate("terminated" if terminate else "pooled", f"{where} {_end(for_good=terminate)}")


def _end(*, for_good: bool) -> str:
    return "is deleted at the cloud" if for_good else "is wiped and goes back to the pool"
