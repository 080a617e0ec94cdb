"""How the simulated GitHub behaves: its pace, its limits, and how often it shows each of its known bad habits."""

from typing import Literal

import msgspec

__all__ = ["GitHubBehaviour"]


class GitHubBehaviour(msgspec.Struct, kw_only=True):
    """Durations are in seconds, rates are probabilities from 0 to 1; by default nothing goes wrong.

    What GitHub needs for its own work (offers, webhooks, giving up on a runner) and the windows of its limits are
    divided by `speed`, and so is what jobs take. What people read as a date is not: a token's hour, the day after which
    an unused runner or a waiting job is dropped.
    """

    speed: float = 1.0
    latency: tuple[float, float] | None = None

    # The queue
    assignment: tuple[float, float] = (0.2, 1.5)
    """From a job being queued, or a runner coming online, to the first offer."""
    offer_life: float = 60.0
    """A runner that does not take the job offered to it within this time loses it: the job is offered to another."""
    lost_runner: float = 600.0
    """From a runner's silence in the middle of a job to the job's failure."""
    cancel_grace: float = 300.0
    job_limit: float = 6 * 3600.0
    approval_limit: float = 30 * 86400.0
    """How long a job waits for an approval before it fails."""
    queue_limit: float = 86400.0
    unused_runner: float = 86400.0
    job_kept: float = 90 * 86400.0
    """After this a completed job is forgotten, and asking for it answers 404."""
    jobs_kept: int = 20_000
    """So many completed jobs are known at most: a GitHub that runs for weeks must not grow for weeks."""

    # Reads
    list_lag: float = 0.0
    """Lists of runners show what was true this long ago."""
    flapping: float = 0.0
    """How many jobs show as queued again, with no runner, for `flap_for` seconds in the middle of their run."""
    flap_for: float = 30.0

    # Webhooks
    delivery: tuple[float, float] = (0.2, 1.0)
    delivery_limit: float = 10.0
    delivery_kept: float = 3 * 86400.0
    """After this a delivery cannot be sent again, and the log shows it no more."""
    deliveries_kept: int = 20_000
    unsent: float = 0.0
    """Events that GitHub never sends, and of which its log knows nothing."""
    unsent_completed: float = 0.0
    """The same for `completed` alone."""
    undelivered: float = 0.0
    """Deliveries that do not arrive and stand in the log as failed."""
    repeated: float = 0.0
    """Deliveries that come twice under one id."""
    delayed: float = 0.0
    delayed_by: tuple[float, float] = (5.0, 120.0)
    overtaken: float = 0.0
    """Deliveries that arrive only after the job's next one: in_progress before queued, completed before in_progress."""

    queued_before_approval: float = 0.0
    """Jobs of protected environments of which a `queued` is sent beside the `waiting`, long before anybody approves."""
    # Scale sets
    acquire_flow: bool = False
    """Jobs are offered and must be acquired, as at GHES; at github.com they are assigned."""
    poll_hold: float = 50.0
    assignment_life: float = 300.0
    """An assignment that no runner takes within this is taken back, and made anew."""
    gives_up_assigning: bool = False
    """After three of them the job is stranded."""
    session_life: float = 60.0
    """A session that nobody polls counts as alive for so long, and keeps others out."""
    queueless_sessions: int = 0
    """So many sessions, those that are opened next, come without the address of their queue, and stand."""
    empty_polls: bool = False
    """A poll is answered after a tenth of a second, with 200 and an empty body."""
    fresh_token_refused: float = 0.0
    """For so long after it was made a registration token is answered with 401."""
    admin_token_life: float = 1000.0
    queue_token_life: float = 3000.0
    custom_labels_dropped: bool = False
    """A new set keeps its name as its only label, and the answer is 200 all the same (GHES before 3.21)."""
    labels_fixed: bool = False
    """A set keeps the labels that it was made with: a change of them is answered with 200 and not made."""
    dealt: dict[str, int] | None = None
    """The job that a runner of a set is given, by the runner's name; any other runner of a set waits. None: whichever is next."""
    early_completion: bool = False
    """The queue says that a job is over as soon as it has started, while its runner works on."""
    silent_cancel: bool = False
    """A job that is cancelled before a runner took it brings no message."""
    zero_statistics: bool = False
    phantom_jobs: int = 0
    """So many more jobs than there are does every scale set count as assigned."""
    repeated_entries: bool = False
    unannounced_reruns: bool = False
    """A re-run is neither counted nor announced to a scale set that has no job and no runner."""

    # Calls
    server_error: float = 0.0
    slow: float = 0.0
    slow_by: tuple[float, float] = (2.0, 20.0)
    lost_answer: float = 0.0
    """Calls whose effect happens and whose answer does not arrive."""

    # Limits
    calls_per_hour: int = 5000
    registrations_per_hour: int = 10_000
    points_per_minute: int = 900
    calls_at_once: int = 100
    secondary_status: Literal[403, 429] = 403
