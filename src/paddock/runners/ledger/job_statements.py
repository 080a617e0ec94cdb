"""What is said to the database about one job: its row, its end, the claim that it is bound to, and the locks that order all of it."""

from paddock.runners.ledger.database import columns
from paddock.runners.ledger.rows import Completion, HeldPod, Job

__all__ = [
    "CLAIMS_CONCERNED",
    "COMPLETE",
    "COMPLETION",
    "DISPLACE",
    "END_CLAIMS",
    "EXECUTES",
    "FINISH",
    "HELD",
    "INSERT",
    "JOB",
    "JOBS_CONCERNED",
    "LOCK",
    "MINTED_FOR",
    "QUEUED",
    "REQUEUE",
    "RUNNING",
    "RUNS",
    "SESSION_EXECUTES",
]

LOCK = """
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(%s))
"""
MINTED_FOR = """
-- job_of_runner: what the runner of this name was minted for
SELECT job_id FROM sessions WHERE account_id = %s AND runner_name = %s AND job_id IS NOT NULL
"""
INSERT = """
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why, labels, repository_id)
SELECT %(job_id)s, %(account_id)s, %(pool)s, %(platform)s, %(vcpus)s, %(memory_mb)s, %(status)s, %(conclusion)s,
    %(repository)s, %(workflow_run_id)s, %(workflow_name)s, %(run_attempt)s, %(job_name)s, %(head_branch)s, %(head_sha)s,
    %(label)s, %(enqueued_at)s, %(started_at)s, %(completed_at)s, %(runner_name)s, %(now)s, %(by)s, %(why)s, %(labels)s::text[],
    %(repository_id)s
WHERE %(status)s NOT IN ('queued', 'waiting', 'unserved') OR NOT EXISTS (SELECT FROM completions WHERE job_id = %(job_id)s)
ON CONFLICT (job_id) DO NOTHING
"""
JOB = f"""
-- job
SELECT {columns(Job)} FROM jobs WHERE job_id = %s
"""
COMPLETION = f"""
-- completion
SELECT {columns(Completion)} FROM completions WHERE job_id = %s
"""
CLAIMS_CONCERNED = f"""
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT {columns(HeldPod)}
FROM claims
WHERE (account_id = %(account_id)s AND runner_name = %(runner_name)s) OR job_id = %(job_id)s
ORDER BY pod_uid FOR UPDATE
"""
JOBS_CONCERNED = """
-- jobs_concerned: in the order of locks
SELECT job_id, repository_id FROM jobs WHERE job_id = ANY (%s) ORDER BY job_id FOR UPDATE
"""
REQUEUE = """
-- requeue_job: only while it is still held under that claim; its place in the line stays what it was
UPDATE jobs SET status = 'queued', conclusion = NULL, generation = NULL, pod_uid = NULL, pod_name = NULL,
    runner_name = NULL, claimed_at = NULL, started_at = NULL, changed_at = %(now)s, changed_by = %(by)s, changed_why = %(why)s
WHERE job_id = %(job_id)s AND generation IS NOT DISTINCT FROM %(generation)s AND status IN ('claimed', 'running')
RETURNING pool
"""
DISPLACE = """
-- displace_claim: its job went to another runner; the Pod stays reserved, for it may be given any other job
UPDATE claims SET job_id = NULL, executing_since = NULL, displaced_at = coalesce(displaced_at, %s) WHERE generation = %s
"""
EXECUTES = """
-- claim_executes: GitHub proved which job this runner executes, and so whose limit it counts for (a job may have had no name)
UPDATE claims SET job_id = %(job_id)s, repository_id = coalesce((SELECT j.repository_id FROM jobs j WHERE j.job_id = %(job_id)s), repository_id),
    executing_since = coalesce(executing_since, %(started_at)s), displaced_at = NULL
WHERE generation = %(generation)s
"""
RUNS = """
-- job_runs: bound to the claim of the runner that executes it, or to none of ours
-- (a job that this runner is known to run keeps its binding even if the claim is gone: it is the handle to put it back by)
UPDATE jobs SET status = 'running', generation = %(generation)s, pod_uid = %(pod_uid)s, pod_name = %(pod_name)s,
    runner_name = %(runner_name)s, started_at = coalesce(started_at, %(started_at)s), not_before = NULL,
    changed_at = %(now)s, changed_by = %(by)s, changed_why = %(why)s
WHERE job_id = %(job_id)s AND status IN ('waiting', 'unserved', 'queued', 'claimed', 'running')
  AND NOT (%(generation)s::bigint IS NULL AND status = 'running' AND runner_name = %(runner_name)s)
RETURNING pool, enqueued_at
"""
SESSION_EXECUTES = """
-- session_executes
UPDATE sessions SET executed_job_id = %(job_id)s, job_started_at = coalesce(job_started_at, %(started_at)s),
    job_ended_at = coalesce(job_ended_at, %(ended_at)s)
WHERE account_id = %(account_id)s AND runner_name = %(runner_name)s
"""
COMPLETE = """
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (%(job_id)s, %(account_id)s, %(conclusion)s, %(runner_name)s, %(completed_at)s, %(now)s)
ON CONFLICT DO NOTHING
"""
FINISH = """
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = %(status)s, conclusion = %(conclusion)s, completed_at = %(completed_at)s,
    started_at = coalesce(started_at, %(started_at)s), runner_name = coalesce(%(runner_name)s, runner_name),
    not_before = NULL, changed_at = %(now)s, changed_by = %(by)s, changed_why = %(why)s
WHERE job_id = %(job_id)s AND status NOT IN ('completed', 'cancelled')
RETURNING pool, started_at
"""
END_CLAIMS = """
-- end_claims_of_executor
SELECT * FROM end_claims(%(generations)s, 'live', NULL, false, %(by)s, %(why)s, %(now)s)
"""
QUEUED = f"""
-- queued_jobs: oldest first, so many of each account: however long the line of one is, it hides nobody else's
SELECT {columns(Job)} FROM (
    SELECT jobs.*, row_number() OVER (PARTITION BY account_id ORDER BY enqueued_at, job_id) AS nth
    FROM jobs WHERE status IN ('queued', 'unserved') AND enqueued_at < %(before)s AND enqueued_at > %(after)s
) line
WHERE nth <= %(limit)s ORDER BY nth, enqueued_at, job_id LIMIT %(most)s
"""
HELD = f"""
-- held_jobs: those that GitHub holds back, so many of each account; whose hold is the newest first, because it is in doubt the most
SELECT {columns(Job)} FROM (
    SELECT jobs.*, row_number() OVER (PARTITION BY account_id ORDER BY changed_at DESC, job_id DESC) AS nth
    FROM jobs WHERE status = 'waiting'
) line
WHERE nth <= %(limit)s ORDER BY nth, changed_at DESC, job_id LIMIT %(most)s
"""
RUNNING = f"""
-- running_jobs: oldest first
SELECT {columns(Job)} FROM jobs WHERE status = 'running' AND started_at < %s ORDER BY started_at, job_id LIMIT %s
"""
