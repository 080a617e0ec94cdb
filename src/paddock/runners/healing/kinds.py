"""Every kind of disagreement that is healed, by the name that settings, metrics and the heal ledger use."""

from typing import Final

__all__ = ["KINDS"]

KINDS: Final = frozenset(
    {
        "stale_claim",
        "completed_claim",
        "displaced_claim",
        "orphan_requeued",
        "orphan_completed",
        "orphaned_stamped_pod",
        "finished_job_pod",
        "hung_runner",
        "pod_missing_claim",
        "orphaned_runner_session",
        "queued_completed",
        "queued_started",
        "queued_gave_up",
        "queued_found",
        "approval_found",
        "hold_found",
        "redelivered",
        "orphan_service_account",
        "offline_runner",
        "immortal_pod",
    }
)
