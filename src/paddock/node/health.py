"""What can be wrong with a Mac, as the conditions of its report. Pure."""

from msgspec import Struct

from paddock.clients.gateway.messages import Reason, Stated

__all__ = ["OTHER_CLUSTER_VMS", "Health", "stated"]

OTHER_CLUSTER_VMS = "OtherClusterVMs"


class Health(Struct, frozen=True):
    """What can be wrong with a Mac, each a sentence with its remedy, or empty."""

    not_ready: Reason | None = None
    disk_pressure: str = ""
    slots_leaked: str = ""
    slots_leak_often: str = ""
    long_uptime: str = ""
    clock_skew: str = ""
    journal_unreadable: str = ""
    other_cluster: tuple[str, ...] = ()
    """The jobs of another cluster that run here, each with its Pod, VM and time."""


def stated(health: Health) -> dict[str, Stated]:
    """Every condition that the agent knows, also those that do not hold."""

    def condition(problem: str, wrong: str, right: str, otherwise: str) -> Stated:
        return Stated(bool(problem), wrong if problem else right, problem or otherwise)

    no = health.not_ready
    return {
        "Ready": Stated(False, no.reason, no.message)
        if no is not None
        else Stated(True, "AgentReady", "the agent runs, and VMs can start"),
        "DiskPressure": condition(
            health.disk_pressure, "DiskIsShort", "EnoughSpace", "the disk has room for another image"
        ),
        "VMSlotsLeaked": condition(health.slots_leaked, "RebootNeeded", "SlotsFree", "macOS grants VMs as it should"),
        "VMSlotsLeakOften": condition(
            health.slots_leak_often,
            "MacOSBuild",
            "SlotsStay",
            "no macOS of this Mac lost more than one VM's seat within a day",
        ),
        "LongUptime": condition(health.long_uptime, "RebootNeeded", "UptimeShort", "the Mac was booted lately enough"),
        "ClockSkewed": condition(
            health.clock_skew, "ClockIsWrong", "ClockIsRight", "the Mac's clock agrees with the API server's"
        ),
        "JournalUnreadable": condition(
            health.journal_unreadable,
            "EntryUnreadable",
            "AllReadable",
            "every entry of the agent's journal can be read",
        ),
        OTHER_CLUSTER_VMS: _other_cluster(health.other_cluster),
    }


def _other_cluster(jobs: tuple[str, ...]) -> Stated:
    if not jobs:
        return Stated(False, "NoJob", "no job of another cluster runs here")
    return Stated(
        True,
        "OneJob" if len(jobs) == 1 else f"{len(jobs)}Jobs",
        f"a job that another cluster began runs on: {', '.join(jobs)}; it keeps its seat, is let finish, and is removed then; "
        "to end it now, run `tart stop` with the VM's name on the Mac",
    )
