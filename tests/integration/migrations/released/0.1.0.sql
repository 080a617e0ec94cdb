-- Paddock 0.1.0, ledger migration 6
-- enrol: the account and both of its limits in one statement, so that no account is ever without them;
-- limits that somebody has set are left as they are.
WITH account AS (
    INSERT INTO accounts (account_id, login, installation_id, enrolled_at)
    VALUES (1, 'org1', 1001, '2026-06-01 12:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id) DO UPDATE SET login = excluded.login, installation_id = excluded.installation_id
    RETURNING *
), given AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    SELECT account.account_id, d.platform, d.vcpus, d.memory_mb, '2026-06-01 12:00:00+00:00'::timestamptz
    FROM account, unnest('{linux,macos}'::text[], '{32,12}'::int2[]::integer[], '{65536,28672}'::int4[]::integer[]) AS d (platform, vcpus, memory_mb)
    ON CONFLICT DO NOTHING
)
SELECT account_id, login, installation_id, enrolled_at FROM account
-- next
-- set_limit: waits for an admission under way; what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM limits WHERE account_id = 1 AND platform = 'macos' FOR UPDATE
), written AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    VALUES (1, 'macos', 12, 28672, '2026-06-01 12:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id, platform) DO UPDATE
        SET vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, account_id, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'limit', 1,
           coalesce((SELECT format('%s %s vCPU %s MB', 'macos', before.vcpus, before.memory_mb) FROM before), ''),
           format('%s %s vCPU %s MB', w.platform, w.vcpus, w.memory_mb), 'test', 'as the test needs it'
    FROM written w
)
SELECT account_id, platform, vcpus, memory_mb FROM written
-- next
-- set_limit: waits for an admission under way; what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM limits WHERE account_id = 1 AND platform = 'linux' FOR UPDATE
), written AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    VALUES (1, 'linux', 12, 28672, '2026-06-01 12:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id, platform) DO UPDATE
        SET vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, account_id, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'limit', 1,
           coalesce((SELECT format('%s %s vCPU %s MB', 'linux', before.vcpus, before.memory_mb) FROM before), ''),
           format('%s %s vCPU %s MB', w.platform, w.vcpus, w.memory_mb), 'test', 'as the test needs it'
    FROM written w
)
SELECT account_id, platform, vcpus, memory_mb FROM written
-- next
-- accounts_by_id
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE account_id = ANY ('{1}'::int2[]::bigint[])
-- next
-- accounts_by_installation
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE installation_id = ANY ('{1001}'::int2[]::bigint[])
-- next
-- account_by_login: GitHub's logins do not differ by case alone
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE lower(login) = lower('org1')
ORDER BY account_id LIMIT 1
-- next
-- register_dispatcher: every start is a new one
INSERT INTO dispatchers (name, started_at, seen_at) VALUES ('dispatch-1', '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz) RETURNING dispatcher_id
-- next
-- dispatcher_beat
UPDATE dispatchers SET seen_at = greatest(seen_at, '2026-06-01 12:00:00+00:00'::timestamptz) WHERE dispatcher_id = 1
-- next
-- store_deliveries: the key is the de-duplication; in its order, so that two who store the same ones wait in no circle
INSERT INTO deliveries (delivery_id, event, payload, received_at, due_at)
SELECT sent.delivery_id, sent.event, sent.payload, '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz
FROM unnest('{delivery-1}'::text[], '{workflow_job}'::text[],  E'{"\\\\x7b7d"}'::bytea[]::bytea[]) AS sent (delivery_id, event, payload)
ORDER BY sent.delivery_id
ON CONFLICT DO NOTHING
RETURNING delivery_id
-- next
-- take_deliveries: whoever holds a delivery hides it from the others until its time is up
WITH due AS (
    SELECT delivery_id FROM deliveries WHERE settled_at IS NULL AND due_at <= '2026-06-01 12:00:00+00:00'::timestamptz
    ORDER BY due_at LIMIT 20 FOR UPDATE SKIP LOCKED
)
UPDATE deliveries d SET attempts = d.attempts + 1, due_at = '2026-06-01 12:01:00+00:00'::timestamptz
FROM due WHERE d.delivery_id = due.delivery_id
RETURNING d.delivery_id, d.event, d.payload, d.received_at, d.attempts AS attempt
-- next
-- settle_deliveries: the body goes, the id stays; only by the worker that holds them, locked in the order of the key
WITH held AS MATERIALIZED (
    SELECT d.delivery_id, done.outcome
    FROM unnest('{delivery-1}'::text[], '{1}'::int2[]::integer[], '{done}'::text[]) AS done (delivery_id, attempt, outcome)
    JOIN deliveries d ON d.delivery_id = done.delivery_id AND d.attempts = done.attempt AND d.settled_at IS NULL
    ORDER BY d.delivery_id FOR UPDATE OF d
)
UPDATE deliveries d SET settled_at = '2026-06-01 12:00:00+00:00'::timestamptz, due_at = NULL, outcome = held.outcome, payload = NULL
FROM held WHERE d.delivery_id = held.delivery_id
RETURNING d.delivery_id
-- next
-- delivery_backlog
SELECT count(*) FROM deliveries WHERE settled_at IS NULL
-- next
-- newest_delivery
SELECT max(received_at) FROM deliveries
-- next
-- known_deliveries
SELECT delivery_id FROM deliveries WHERE delivery_id = ANY ('{delivery-1}')
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{11}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 12:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{11}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000011+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-1-a}', '{runner-1-a}', 1, 'dispatch', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- commit_claims: each for itself, one account's setbacks after the other's
SELECT said.uid, commit_claim(said.uid, said.generation, said.runner_name, said.session, said.by,
                              'runner ' || said.runner_name || ' was minted', '2026-06-01 12:00:00+00:00'::timestamptz)
FROM (
    SELECT said.* FROM unnest('{uid-1-a}'::text[], '{1}'::int2[]::bigint[], '{runner-1-a-mint}'::text[], '{t}'::bool[]::boolean[],
                              '{dispatch}'::text[]) AS said (uid, generation, runner_name, session, by)
    LEFT JOIN claims c ON c.pod_uid = said.uid LEFT JOIN jobs j ON j.job_id = c.job_id
    ORDER BY c.account_id, j.repository
) said
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(11))
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 11, job_started_at = coalesce(job_started_at, '2026-06-01 12:00:00+00:00'::timestamptz),
    job_ended_at = coalesce(job_ended_at, NULL)
WHERE account_id = 1 AND runner_name = 'runner-1-a-mint'
-- next
-- completion
SELECT job_id, account_id, conclusion, runner_name, completed_at, recorded_at FROM completions WHERE job_id = 11
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-1-a-mint') OR job_id = 11
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{11,11}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- claim_executes: GitHub proved which job this runner executes
UPDATE claims SET job_id = 11, executing_since = coalesce(executing_since, '2026-06-01 12:00:00+00:00'::timestamptz)
WHERE generation = 1
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 11, 1, 'mac-m4', 'macos', 6, 14336, 'running', NULL,
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000011+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz, NULL, 'runner-1-a-mint', '2026-06-01 12:00:00+00:00'::timestamptz, 'webhook', 'GitHub gave it to runner runner-1-a-mint'
WHERE 'running' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 11)
ON CONFLICT (job_id) DO NOTHING
-- next
-- job_runs: bound to the claim of the runner that executes it, or to none of ours
-- (a job that this runner is known to run keeps its binding even if the claim is gone: it is the handle to put it back by)
UPDATE jobs SET status = 'running', generation = 1, pod_uid = 'uid-1-a', pod_name = 'runner-1-a',
    runner_name = 'runner-1-a-mint', started_at = coalesce(started_at, '2026-06-01 12:00:00+00:00'::timestamptz), not_before = NULL,
    changed_at = '2026-06-01 12:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub gave it to runner runner-1-a-mint'
WHERE job_id = 11 AND status IN ('queued', 'claimed', 'running')
  AND NOT (1::bigint IS NULL AND status = 'running' AND runner_name = 'runner-1-a-mint')
-- next
-- note_progress: a late copy of an older report changes nothing
INSERT INTO progress (pod_uid, mark, changed_at, seen_at) VALUES ('uid-1-a', '1 running', '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz)
ON CONFLICT (pod_uid) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at,
    changed_at = CASE WHEN progress.mark = excluded.mark THEN progress.changed_at ELSE excluded.changed_at END
WHERE progress.seen_at <= excluded.seen_at
-- next
-- progress_of_pods
SELECT pod_uid, mark, changed_at, seen_at FROM progress WHERE pod_uid = ANY ('{uid-1-a}')
-- next
-- running_jobs: oldest first
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'running' AND started_at < '2026-06-01 13:00:00+00:00'::timestamptz ORDER BY started_at, job_id LIMIT 10000
-- next
-- open_sessions: oldest first
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE ended_at IS NULL AND started_at < '9999-12-31 23:59:59.999999+00:00'::timestamptz ORDER BY started_at, pod_uid
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(11))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (11, 1, 'success', 'runner-1-a-mint', '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 11, job_started_at = coalesce(job_started_at, NULL),
    job_ended_at = coalesce(job_ended_at, '2026-06-01 12:00:00+00:00'::timestamptz)
WHERE account_id = 1 AND runner_name = 'runner-1-a-mint'
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-1-a-mint') OR job_id = 11
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{11,11}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'completed', conclusion = 'success', completed_at = '2026-06-01 12:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce('runner-1-a-mint', runner_name),
    not_before = NULL, changed_at = '2026-06-01 12:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: success'
WHERE job_id = 11 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 11, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'success',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000011+00:00'::timestamptz, NULL, '2026-06-01 12:00:00+00:00'::timestamptz, 'runner-1-a-mint', '2026-06-01 12:00:00+00:00'::timestamptz, 'webhook', 'GitHub: success'
WHERE 'completed' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 11)
ON CONFLICT (job_id) DO NOTHING
-- next
-- end_claims_of_executor
SELECT * FROM end_claims('{1}'::int2[], 'live', NULL, false, 'webhook', 'its runner finished job 11', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- completion
SELECT job_id, account_id, conclusion, runner_name, completed_at, recorded_at FROM completions WHERE job_id = 11
-- next
-- end_sessions: of two reports the earlier moment counts, and never one before the start
WITH reported AS (
    SELECT * FROM unnest('{uid-1-a}'::text[], '{"2026-06-01 12:00:00+00:00"}'::timestamptz[]::timestamptz[]) AS r (pod_uid, ended_at)
), old AS (
    SELECT s.pod_uid, s.ended_at FROM sessions s JOIN reported USING (pod_uid) ORDER BY s.pod_uid FOR UPDATE OF s
), ended AS (
    UPDATE sessions s SET ended_at = least(s.ended_at, greatest(s.started_at, r.ended_at)),
        end_reason = CASE WHEN s.ended_at IS NULL THEN 'the Pod ended' ELSE s.end_reason END
    FROM reported r JOIN old USING (pod_uid)
    WHERE s.pod_uid = r.pod_uid AND (s.ended_at IS NULL OR (NOT false AND r.ended_at < s.ended_at))
    RETURNING s.*, old.ended_at AS before
), logged AS (
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'session', e.job_id, e.account_id, e.pod_uid, e.generation, 'open', 'ended', 'test', 'the Pod ended'
    FROM ended e WHERE e.before IS NULL
)
SELECT count(*) FROM ended
-- next
-- session_of_pod
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE pod_uid = 'uid-1-a'
-- next
-- sessions_of_job: every Pod that was minted for it or executed it
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE job_id = 11
UNION SELECT s.pod_uid, s.pod_name, s.generation, s.account_id, s.job_id, s.executed_job_id, s.pool, s.platform, s.vcpus, s.memory_mb, s.runner_name, s.repository, s.workflow_name, s.started_at, s.ended_at, s.end_reason, s.job_started_at, s.job_ended_at FROM jobs j JOIN sessions s ON s.account_id = j.account_id AND s.runner_name = j.runner_name
WHERE j.job_id = 11 ORDER BY started_at
-- next
-- sessions_of_pods
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE pod_uid = ANY ('{uid-1-a}')
-- next
-- runners_by_name: whose session is known, with the Pod's uid and whether it ended
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE account_id = ANY ('{1}'::int2[]) AND runner_name = ANY ('{runner-1-a-mint}')
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{12}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 12:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{12}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000012+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-1-b}', '{runner-1-b}', NULL, 'dispatch', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- claim_of_pod
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE pod_uid = 'uid-1-b' AND state <> 'fenced'
-- next
-- live_claims: every Pod that is held for a job
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE state <> 'fenced' ORDER BY claimed_at, pod_uid
-- next
-- release
SELECT * FROM end_claims(
    (SELECT array_agg(generation) FROM claims WHERE generation = 2 AND pod_uid = 'uid-1-b'),
    'live', NULL, false, 'test', 'the mint was refused', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- queued_jobs: oldest first
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'queued' AND enqueued_at < '2026-06-01 13:00:00+00:00'::timestamptz AND enqueued_at > '2025-04-27 12:00:00+00:00'::timestamptz
ORDER BY enqueued_at, job_id LIMIT 1000
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- in_line: the jobs that have waited longest
WITH line AS (
    SELECT * FROM jobs WHERE status = 'queued' ORDER BY enqueued_at, job_id LIMIT 100
)
-- why_it_waits: each waiting job beside everything that may hold it up; its place is the one that claiming would give it
, places AS (
    SELECT of_pool.pool, place.job_id, place.number::integer AS number, count(*) OVER (PARTITION BY of_pool.pool) AS ranked
    FROM (SELECT DISTINCT pool FROM line) of_pool
    CROSS JOIN LATERAL unnest(next_jobs(of_pool.pool, 100, '2026-06-01 12:00:00+00:00'::timestamptz, '{}')) WITH ORDINALITY AS place (job_id, number)
)
SELECT line.job_id, line.account_id, a.login, line.repository, line.workflow_name, line.job_name, line.pool,
       line.platform, line.label, line.vcpus, line.memory_mb, line.enqueued_at, line.mint_failures, line.not_before,
       line.changed_why, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       setback.repository AS setback_repository, setback.not_before AS setback_until, setback.why AS setback_why,
       places.number AS position,
       coalesce((SELECT max(p.ranked) FROM places p WHERE p.pool = line.pool), 0)::integer AS ranked
FROM line JOIN accounts a USING (account_id)
LEFT JOIN limits l ON l.account_id = line.account_id AND l.platform = line.platform
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
LEFT JOIN LATERAL (SELECT s.repository, s.not_before, s.why FROM setbacks s
                   WHERE s.account_id = line.account_id AND s.repository IN ('', line.repository)
                     AND s.not_before > '2026-06-01 12:00:00+00:00'::timestamptz ORDER BY s.not_before DESC LIMIT 1) setback ON true
LEFT JOIN places ON places.pool = line.pool AND places.job_id = line.job_id
ORDER BY line.enqueued_at, line.job_id
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-1-c}', '{runner-1-c}', NULL, 'dispatch', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- commit_claims: each for itself, one account's setbacks after the other's
SELECT said.uid, commit_claim(said.uid, said.generation, said.runner_name, said.session, said.by,
                              'runner ' || said.runner_name || ' was minted', '2026-06-01 12:00:00+00:00'::timestamptz)
FROM (
    SELECT said.* FROM unnest('{uid-1-c}'::text[], '{3}'::int2[]::bigint[], '{runner-1-c-mint}'::text[], '{t}'::bool[]::boolean[],
                              '{dispatch}'::text[]) AS said (uid, generation, runner_name, session, by)
    LEFT JOIN claims c ON c.pod_uid = said.uid LEFT JOIN jobs j ON j.job_id = c.job_id
    ORDER BY c.account_id, j.repository
) said
-- next
-- job
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE job_id = 12
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(12))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (12, 1, 'failure', 'runner-1-c-mint', '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 12, job_started_at = coalesce(job_started_at, NULL),
    job_ended_at = coalesce(job_ended_at, '2026-06-01 12:00:00+00:00'::timestamptz)
WHERE account_id = 1 AND runner_name = 'runner-1-c-mint'
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-1-c-mint') OR job_id = 12
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{12,12}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'completed', conclusion = 'failure', completed_at = '2026-06-01 12:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce('runner-1-c-mint', runner_name),
    not_before = NULL, changed_at = '2026-06-01 12:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: failure'
WHERE job_id = 12 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 12, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'failure',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000012+00:00'::timestamptz, NULL, '2026-06-01 12:00:00+00:00'::timestamptz, 'runner-1-c-mint', '2026-06-01 12:00:00+00:00'::timestamptz, 'webhook', 'GitHub: failure'
WHERE 'completed' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 12)
ON CONFLICT (job_id) DO NOTHING
-- next
-- end_claims_of_executor
SELECT * FROM end_claims('{3}'::int2[], 'live', NULL, false, 'webhook', 'its runner finished job 12', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- end_sessions: of two reports the earlier moment counts, and never one before the start
WITH reported AS (
    SELECT * FROM unnest('{uid-1-c}'::text[], '{"2026-06-01 12:00:00+00:00"}'::timestamptz[]::timestamptz[]) AS r (pod_uid, ended_at)
), old AS (
    SELECT s.pod_uid, s.ended_at FROM sessions s JOIN reported USING (pod_uid) ORDER BY s.pod_uid FOR UPDATE OF s
), ended AS (
    UPDATE sessions s SET ended_at = least(s.ended_at, greatest(s.started_at, r.ended_at)),
        end_reason = CASE WHEN s.ended_at IS NULL THEN 'the Pod ended' ELSE s.end_reason END
    FROM reported r JOIN old USING (pod_uid)
    WHERE s.pod_uid = r.pod_uid AND (s.ended_at IS NULL OR (NOT false AND r.ended_at < s.ended_at))
    RETURNING s.*, old.ended_at AS before
), logged AS (
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'session', e.job_id, e.account_id, e.pod_uid, e.generation, 'open', 'ended', 'test', 'the Pod ended'
    FROM ended e WHERE e.before IS NULL
)
SELECT count(*) FROM ended
-- next
-- release_stopped: what was never minted waits again; a job that was handed over is left for GitHub to speak about
SELECT * FROM end_claims((SELECT array_agg(generation) FROM claims WHERE pod_uid = 'uid-1-c'),
    'unminted', NULL, false, 'test', 'the Pod ended', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- jobs_running_on: by the Pod, whether its claim is still there or not
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'running' AND pod_uid = 'uid-1-c' ORDER BY job_id
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{13}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 12:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{13}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000013+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-1-d}', '{runner-1-d}', NULL, 'dispatch', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- release
SELECT * FROM end_claims(
    (SELECT array_agg(generation) FROM claims WHERE generation = 4 AND pod_uid = 'uid-1-d'),
    'live', '2026-06-01 12:00:05.404791+00:00'::timestamptz, true, 'test', 'GitHub refused', '2026-06-01 12:00:00+00:00'::timestamptz)
-- next
-- setback: leave the account or the repository alone for a while
INSERT INTO setbacks (account_id, repository, failures, not_before, why)
VALUES (1, 'org1/app', 1, '2026-06-01 12:00:05.188561+00:00'::timestamptz, 'GitHub refused')
ON CONFLICT (account_id, repository) DO UPDATE
    SET failures = setbacks.failures + 1, why = excluded.why,
        not_before = greatest(setbacks.not_before, '2026-06-01 12:00:00+00:00'::timestamptz + least(
            900.0, 5.0 * power(2.0, least(setbacks.failures, 30))) * interval '1 second')
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(13))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (13, 1, 'cancelled', NULL, '2026-06-01 12:00:00+00:00'::timestamptz, '2026-06-01 12:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{13}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'cancelled', conclusion = 'cancelled', completed_at = '2026-06-01 12:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce(NULL, runner_name),
    not_before = NULL, changed_at = '2026-06-01 12:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: cancelled'
WHERE job_id = 13 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 13, 1, 'mac-m4', 'macos', 6, 14336, 'cancelled', 'cancelled',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000013+00:00'::timestamptz, NULL, '2026-06-01 12:00:00+00:00'::timestamptz, NULL, '2026-06-01 12:00:00+00:00'::timestamptz, 'webhook', 'GitHub: cancelled'
WHERE 'cancelled' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 13)
ON CONFLICT (job_id) DO NOTHING
-- next
-- raise_fence: a claim under way is waited for, and then wins
WITH raised AS (
    INSERT INTO claims (pod_uid, pod_name, state, claimed_at, by, why)
    VALUES ('uid-1-e', 'runner-1-e', 'fenced', '2026-06-01 12:00:00+00:00'::timestamptz, 'test', 'drained')
    ON CONFLICT DO NOTHING
    RETURNING pod_uid, pod_name, generation, claimed_at AS raised_at, by, why
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'fence', pod_uid, pod_name, generation, '', 'fenced', by, why FROM raised
)
SELECT * FROM raised
-- next
-- fence_of_pod
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE pod_uid = 'uid-1-e' AND state = 'fenced'
-- next
-- standing_fences
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE state = 'fenced' AND claimed_at <= '2026-06-01 12:00:00+00:00'::timestamptz ORDER BY claimed_at, pod_uid
-- next
-- standing_fences
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE state = 'fenced' AND claimed_at <= '2026-06-01 12:00:00+00:00'::timestamptz ORDER BY claimed_at, pod_uid
-- next
-- lift_fence
WITH lifted AS (
    DELETE FROM claims WHERE pod_uid = 'uid-1-e' AND generation = 5 AND state = 'fenced' RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT '2026-06-01 12:00:00+00:00'::timestamptz, 'fence', pod_uid, pod_name, generation, 'fenced', 'lifted', 'test', 'the Pod is gone' FROM lifted
)
SELECT count(*) FROM lifted
-- next
-- stale_claims: never minted, and either old or left by a dispatcher that stopped beating
SELECT c.pod_uid, c.pod_name, c.generation, c.state, c.job_id, c.account_id, c.pool, c.platform, c.vcpus, c.memory_mb,
       c.runner_name, c.dispatcher_id, c.claimed_at, c.executing_since, c.missing_since, c.by, c.why
FROM claims c LEFT JOIN dispatchers d USING (dispatcher_id)
WHERE c.state = 'claimed' AND (c.claimed_at < '2026-06-01 12:00:00+00:00'::timestamptz OR d.seen_at < '2026-06-01 12:00:00+00:00'::timestamptz)
ORDER BY c.claimed_at, c.pod_uid
-- next
-- note_missing: the first absence is remembered, a reappearance forgets it
WITH concerned AS (
    SELECT pod_uid FROM claims
    WHERE state <> 'fenced' AND claimed_at < '2026-06-01 12:00:00+00:00'::timestamptz
      AND (missing_since IS NULL) <> (pod_uid = ANY ('{}'))
    ORDER BY pod_uid FOR UPDATE
)
UPDATE claims c SET missing_since = CASE WHEN c.pod_uid = ANY ('{}') THEN NULL ELSE coalesce(missing_since, '2026-06-01 12:00:00+00:00'::timestamptz) END
FROM concerned WHERE concerned.pod_uid = c.pod_uid
-- next
-- missing_claims: oldest absence first
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE missing_since < '2026-06-01 12:00:00+00:00'::timestamptz AND state <> 'fenced' ORDER BY missing_since, pod_uid
-- next
-- intend_heal: asked again by whoever resumes, it is the same intent with fresher evidence
INSERT INTO heals (at, kind, subject, pod_uid, job_id, sentence, evidence, seconds)
VALUES ('2026-06-01 12:00:00+00:00'::timestamptz, 'LeakedPod', 'runner-1-e', 'uid-1-e', 13, 'is deleted', '{}'::jsonb, 0.0)
ON CONFLICT (kind, pod_uid) WHERE done_at IS NULL DO UPDATE
    SET sentence = excluded.sentence, evidence = excluded.evidence, seconds = excluded.seconds
RETURNING id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at
-- next
-- intended_heals: under way, or left half done
SELECT id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at FROM heals WHERE done_at IS NULL ORDER BY at, id
-- next
-- heal_done: the intent of that kind for that Pod, if there is one
UPDATE heals SET done_at = '2026-06-01 12:00:00+00:00'::timestamptz, seconds = greatest(seconds, 0.0)
WHERE kind = 'LeakedPod' AND pod_uid = 'uid-1-e' AND pod_uid <> '' AND done_at IS NULL RETURNING id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at
-- next
-- newest_heals
SELECT id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at FROM heals ORDER BY id DESC LIMIT 100
-- next
-- count_heals_by_kind: what was done
SELECT kind, count(*) FROM heals WHERE at >= '2025-04-27 12:00:00+00:00'::timestamptz AND done_at IS NOT NULL GROUP BY kind
-- next
-- usage: what is held under each limit, as admission counts it
SELECT l.account_id, l.platform, l.vcpus, l.memory_mb, coalesce(sum(c.vcpus), 0)::integer AS used_vcpus,
       coalesce(sum(c.memory_mb), 0)::integer AS used_memory_mb, count(c.pod_uid)::integer AS claims
FROM limits l LEFT JOIN claims c ON c.limit_id = l.limit_id
WHERE NULL::bigint IS NULL OR l.account_id = NULL
GROUP BY l.limit_id, l.account_id, l.platform, l.vcpus, l.memory_mb
ORDER BY l.account_id, l.platform
-- next
-- pool_signals: queued jobs count only as far as their account may run them now
WITH line AS (
    SELECT j.account_id, j.platform, count(*) AS jobs, max(j.vcpus) AS vcpus, max(j.memory_mb) AS memory_mb,
           min(j.enqueued_at) AS oldest
    FROM jobs j WHERE j.status = 'queued' AND j.pool = 'mac-m4' AND j.enqueued_at > '2026-06-01 12:00:00+00:00'::timestamptz - interval '7 days'
    GROUP BY j.account_id, j.platform
), room AS (
    SELECT line.jobs, line.oldest, greatest(0, least(
               (l.vcpus - coalesce(used.vcpus, 0)) / line.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / line.memory_mb)) AS headroom
    FROM line LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
), queue AS (
    SELECT coalesce(sum(jobs), 0)::integer AS raw,
           coalesce(sum(least(jobs, coalesce(headroom, 0))), 0)::integer AS queued,
           min(oldest) FILTER (WHERE headroom > 0) AS oldest
    FROM room
), held AS (
    SELECT count(*)::integer AS claimed FROM claims WHERE pool = 'mac-m4'
), occupying AS (
    SELECT count(*)::integer AS pods FROM (
        SELECT pod_uid FROM claims WHERE pool = 'mac-m4'
        UNION SELECT pod_uid FROM sessions
        WHERE pool = 'mac-m4' AND ended_at IS NULL AND started_at > '2026-06-01 12:00:00+00:00'::timestamptz - '6:00:00'::interval::interval
    ) pods
), minutes AS (
    -- the non-empty minutes of the last hour, by how many sessions each saw
    SELECT count(*) AS sessions
    FROM generate_series('2026-06-01 12:00:00+00:00'::timestamptz - interval '59 minutes', '2026-06-01 12:00:00+00:00'::timestamptz, interval '1 minute') AS minute
    JOIN sessions s ON s.pool = 'mac-m4' AND s.started_at > '2026-06-01 12:00:00+00:00'::timestamptz - '6:00:00'::interval::interval - interval '1 hour'
        AND s.started_at <= minute AND coalesce(s.ended_at, s.started_at + '6:00:00'::interval::interval) > minute - interval '1 minute'
    GROUP BY minute
)
SELECT 'mac-m4' AS pool, held.claimed, greatest(held.claimed, occupying.pods) AS occupied, queue.queued,
       queue.raw - queue.queued AS withheld,
       coalesce(extract(epoch FROM '2026-06-01 12:00:00+00:00'::timestamptz - queue.oldest), 0)::float8 AS oldest_dispatchable_seconds,
       coalesce((SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY sessions) FROM minutes), 0)::integer
           AS p95_concurrent_last_hour
FROM queue, held, occupying
-- next
-- line_by_account: who waits where, since when, and whether the next of them may run now
WITH line AS (
    SELECT j.pool, j.account_id, j.platform, min(j.vcpus) AS vcpus, min(j.memory_mb) AS memory_mb,
           min(j.enqueued_at) AS oldest
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > '2026-06-01 12:00:00+00:00'::timestamptz - interval '7 days'
    GROUP BY j.pool, j.account_id, j.platform
)
SELECT line.pool, line.account_id, line.platform, line.oldest,
       coalesce(coalesce(used.vcpus, 0) + line.vcpus <= l.vcpus
                AND coalesce(used.memory_mb, 0) + line.memory_mb <= l.memory_mb, false) AS may_run
FROM line LEFT JOIN limits l USING (account_id, platform)
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- strip: the same rule as the autoscaler's signals, over all pools
WITH line AS (
    SELECT j.account_id, j.platform, j.vcpus, j.memory_mb, j.enqueued_at,
           coalesce(j.not_before > '2026-06-01 12:00:00+00:00'::timestamptz, false) OR EXISTS (
               SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                        AND s.not_before > '2026-06-01 12:00:00+00:00'::timestamptz) AS rests
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > '2026-06-01 12:00:00+00:00'::timestamptz - interval '7 days'
), accounts_in_line AS (
    SELECT account_id, platform, count(*) FILTER (WHERE NOT rests) AS jobs, count(*) FILTER (WHERE rests) AS resting,
           max(vcpus) AS vcpus, max(memory_mb) AS memory_mb, min(enqueued_at) FILTER (WHERE NOT rests) AS oldest
    FROM line GROUP BY account_id, platform
), room AS (
    SELECT a.jobs, a.resting, a.oldest, greatest(0, coalesce(least(
               (l.vcpus - coalesce(used.vcpus, 0)) / a.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / a.memory_mb), 0)) AS headroom
    FROM accounts_in_line a LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
)
SELECT coalesce(extract(epoch FROM '2026-06-01 12:00:00+00:00'::timestamptz - min(oldest) FILTER (WHERE headroom > 0)), 0)::float8
           AS oldest_dispatchable_seconds,
       coalesce(sum(least(jobs, headroom)), 0)::integer AS dispatchable,
       coalesce(sum(jobs - least(jobs, headroom)), 0)::integer AS withheld,
       coalesce(sum(resting), 0)::integer AS resting,
       (SELECT count(*) FROM claims WHERE state = 'claimed')::integer AS claimed,
       (SELECT count(*) FROM jobs WHERE status = 'running')::integer AS running,
       (SELECT count(*) FROM sessions WHERE ended_at IS NULL)::integer AS sessions_open,
       (SELECT count(*) FROM completions WHERE completed_at > '2026-06-01 12:00:00+00:00'::timestamptz - interval '1 hour')::integer AS completed_last_hour
FROM room
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- running_for_people: longest first
SELECT j.job_id, j.account_id, a.login, j.repository, j.workflow_name, j.job_name, j.pool, j.platform, j.enqueued_at,
       j.claimed_at, j.started_at, c.executing_since, j.pod_uid, j.pod_name, j.runner_name
FROM jobs j JOIN accounts a USING (account_id) LEFT JOIN claims c ON c.job_id = j.job_id
WHERE j.status = 'running' AND j.started_at IS NOT NULL ORDER BY j.started_at, j.job_id LIMIT 100
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- recent: the young end of the completions
WITH latest AS (
    SELECT * FROM completions ORDER BY completed_at DESC LIMIT 100
)
SELECT f.job_id, f.account_id, a.login, coalesce(j.repository, '') AS repository,
       coalesce(j.workflow_name, '') AS workflow_name, coalesce(j.job_name, '') AS job_name,
       coalesce(j.pool, '') AS pool, f.conclusion, f.runner_name, j.enqueued_at, j.started_at, f.completed_at
FROM latest f JOIN accounts a USING (account_id) LEFT JOIN jobs j USING (job_id)
ORDER BY f.completed_at DESC, f.job_id DESC
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- latency: jobs that ended in the window or run since, at most so many; a runner's own session says when GitHub started it
WITH concerned AS (
    (SELECT job_id FROM completions WHERE completed_at > '2026-06-01 11:00:00+00:00'::timestamptz ORDER BY completed_at DESC LIMIT 10000)
    UNION
    (SELECT job_id FROM jobs WHERE status = 'running' AND started_at > '2026-06-01 11:00:00+00:00'::timestamptz ORDER BY started_at DESC LIMIT 10000)
), spans AS (
    -- A job that was never claimed itself, because another's runner took it, has only a total.
    SELECT j.claimed_at - j.enqueued_at AS queued, j.started_at - j.claimed_at AS served,
           CASE WHEN j.claimed_at IS NOT NULL THEN s.job_started_at - j.started_at END AS taken_up,
           s.job_started_at - j.enqueued_at AS total
    FROM concerned JOIN jobs j USING (job_id) LEFT JOIN sessions s
         ON s.account_id = j.account_id AND s.runner_name = j.runner_name AND s.executed_job_id = j.job_id
), seconds AS (
    -- GitHub counts in whole seconds, so that its moments may lie a little before ours.
    SELECT stage.name, greatest(0, extract(epoch FROM stage.span))::float8 AS seconds
    FROM spans CROSS JOIN LATERAL (VALUES ('queued_to_claimed', queued), ('claimed_to_running', served),
                                          ('running_to_started', taken_up), ('total', total)) AS stage (name, span)
    WHERE stage.span IS NOT NULL
)
SELECT name, count(*)::integer AS count, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99
FROM seconds GROUP BY name
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- accounts_for_people: whoever holds or waits for something first
WITH waiting AS (
    SELECT account_id, platform, count(*) AS jobs FROM jobs WHERE status = 'queued' GROUP BY account_id, platform
)
SELECT a.account_id, a.login, a.installation_id, l.platform, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       coalesce(used.claims, 0)::integer AS claims, coalesce(waiting.jobs, 0)::integer AS queued
FROM limits l JOIN accounts a USING (account_id)
LEFT JOIN (SELECT limit_id, sum(vcpus) AS vcpus, sum(memory_mb) AS memory_mb, count(*) AS claims FROM claims
           WHERE limit_id IS NOT NULL GROUP BY limit_id) used USING (limit_id)
LEFT JOIN waiting USING (account_id, platform)
ORDER BY coalesce(used.vcpus, 0)::float8 / l.vcpus DESC, coalesce(waiting.jobs, 0) DESC, a.login, l.platform LIMIT 1000
-- next
-- transitions_of_job
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE job_id = 11 ORDER BY transition_id
-- next
-- transitions_of_pod
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE pod_uid = 'uid-1-a' ORDER BY transition_id
-- next
-- newest_transitions
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE transition_id > 0 ORDER BY transition_id DESC LIMIT 100
-- next
SELECT set_config('paddock.forgetting', 'on', true)
-- next
-- forget_transitions: a bounded bite of the oldest
DELETE FROM transitions WHERE transition_id IN (
    SELECT transition_id FROM transitions WHERE at < '2025-04-27 12:00:00+00:00'::timestamptz ORDER BY at LIMIT 10000)
-- next
-- forget_jobs: finished long ago, with their tombstones; a bounded bite of the oldest
WITH old AS (
    SELECT c.job_id FROM completions c LEFT JOIN jobs j USING (job_id)
    WHERE c.completed_at < '2025-04-27 12:00:00+00:00'::timestamptz AND (j.status IS NULL OR j.status IN ('completed', 'cancelled'))
    ORDER BY c.completed_at LIMIT 10000
), jobs_gone AS (
    DELETE FROM jobs j USING old WHERE j.job_id = old.job_id AND j.status IN ('completed', 'cancelled')
), tombstones_gone AS (
    DELETE FROM completions c USING old WHERE c.job_id = old.job_id RETURNING 1
)
SELECT count(*) FROM tombstones_gone
-- next
-- forget_sessions: ended long ago, and nothing is held for the Pod any more; a bounded bite
DELETE FROM sessions WHERE pod_uid IN (
    SELECT s.pod_uid FROM sessions s
    WHERE s.started_at < '2025-04-27 12:00:00+00:00'::timestamptz AND s.ended_at < '2025-04-27 12:00:00+00:00'::timestamptz
      AND NOT EXISTS (SELECT FROM claims c WHERE c.pod_uid = s.pod_uid)
    LIMIT 10000)
-- next
-- forget_deliveries: settled ones, a bounded bite
DELETE FROM deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM deliveries WHERE received_at < '2025-04-27 12:00:00+00:00'::timestamptz AND settled_at IS NOT NULL ORDER BY received_at LIMIT 10000)
-- next
-- forget_progress: a bounded bite of the oldest
DELETE FROM progress WHERE pod_uid IN (SELECT pod_uid FROM progress WHERE seen_at < '2025-04-27 12:00:00+00:00'::timestamptz ORDER BY seen_at LIMIT 10000)
-- the newer release migrates here
-- enrol: the account and both of its limits in one statement, so that no account is ever without them;
-- limits that somebody has set are left as they are.
WITH account AS (
    INSERT INTO accounts (account_id, login, installation_id, enrolled_at)
    VALUES (1, 'org1', 1001, '2026-06-01 13:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id) DO UPDATE SET login = excluded.login, installation_id = excluded.installation_id
    RETURNING *
), given AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    SELECT account.account_id, d.platform, d.vcpus, d.memory_mb, '2026-06-01 13:00:00+00:00'::timestamptz
    FROM account, unnest('{linux,macos}'::text[], '{32,12}'::int2[]::integer[], '{65536,28672}'::int4[]::integer[]) AS d (platform, vcpus, memory_mb)
    ON CONFLICT DO NOTHING
)
SELECT account_id, login, installation_id, enrolled_at FROM account
-- next
-- set_limit: waits for an admission under way; what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM limits WHERE account_id = 1 AND platform = 'macos' FOR UPDATE
), written AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    VALUES (1, 'macos', 12, 28672, '2026-06-01 13:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id, platform) DO UPDATE
        SET vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, account_id, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'limit', 1,
           coalesce((SELECT format('%s %s vCPU %s MB', 'macos', before.vcpus, before.memory_mb) FROM before), ''),
           format('%s %s vCPU %s MB', w.platform, w.vcpus, w.memory_mb), 'test', 'as the test needs it'
    FROM written w
)
SELECT account_id, platform, vcpus, memory_mb FROM written
-- next
-- set_limit: waits for an admission under way; what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM limits WHERE account_id = 1 AND platform = 'linux' FOR UPDATE
), written AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    VALUES (1, 'linux', 12, 28672, '2026-06-01 13:00:00+00:00'::timestamptz)
    ON CONFLICT (account_id, platform) DO UPDATE
        SET vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, account_id, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'limit', 1,
           coalesce((SELECT format('%s %s vCPU %s MB', 'linux', before.vcpus, before.memory_mb) FROM before), ''),
           format('%s %s vCPU %s MB', w.platform, w.vcpus, w.memory_mb), 'test', 'as the test needs it'
    FROM written w
)
SELECT account_id, platform, vcpus, memory_mb FROM written
-- next
-- accounts_by_id
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE account_id = ANY ('{1}'::int2[]::bigint[])
-- next
-- accounts_by_installation
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE installation_id = ANY ('{1001}'::int2[]::bigint[])
-- next
-- account_by_login: GitHub's logins do not differ by case alone
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE lower(login) = lower('org1')
ORDER BY account_id LIMIT 1
-- next
-- register_dispatcher: every start is a new one
INSERT INTO dispatchers (name, started_at, seen_at) VALUES ('dispatch-2', '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz) RETURNING dispatcher_id
-- next
-- dispatcher_beat
UPDATE dispatchers SET seen_at = greatest(seen_at, '2026-06-01 13:00:00+00:00'::timestamptz) WHERE dispatcher_id = 2
-- next
-- store_deliveries: the key is the de-duplication; in its order, so that two who store the same ones wait in no circle
INSERT INTO deliveries (delivery_id, event, payload, received_at, due_at)
SELECT sent.delivery_id, sent.event, sent.payload, '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz
FROM unnest('{delivery-2}'::text[], '{workflow_job}'::text[],  E'{"\\\\x7b7d"}'::bytea[]::bytea[]) AS sent (delivery_id, event, payload)
ORDER BY sent.delivery_id
ON CONFLICT DO NOTHING
RETURNING delivery_id
-- next
-- take_deliveries: whoever holds a delivery hides it from the others until its time is up
WITH due AS (
    SELECT delivery_id FROM deliveries WHERE settled_at IS NULL AND due_at <= '2026-06-01 13:00:00+00:00'::timestamptz
    ORDER BY due_at LIMIT 20 FOR UPDATE SKIP LOCKED
)
UPDATE deliveries d SET attempts = d.attempts + 1, due_at = '2026-06-01 13:01:00+00:00'::timestamptz
FROM due WHERE d.delivery_id = due.delivery_id
RETURNING d.delivery_id, d.event, d.payload, d.received_at, d.attempts AS attempt
-- next
-- settle_deliveries: the body goes, the id stays; only by the worker that holds them, locked in the order of the key
WITH held AS MATERIALIZED (
    SELECT d.delivery_id, done.outcome
    FROM unnest('{delivery-2}'::text[], '{1}'::int2[]::integer[], '{done}'::text[]) AS done (delivery_id, attempt, outcome)
    JOIN deliveries d ON d.delivery_id = done.delivery_id AND d.attempts = done.attempt AND d.settled_at IS NULL
    ORDER BY d.delivery_id FOR UPDATE OF d
)
UPDATE deliveries d SET settled_at = '2026-06-01 13:00:00+00:00'::timestamptz, due_at = NULL, outcome = held.outcome, payload = NULL
FROM held WHERE d.delivery_id = held.delivery_id
RETURNING d.delivery_id
-- next
-- delivery_backlog
SELECT count(*) FROM deliveries WHERE settled_at IS NULL
-- next
-- newest_delivery
SELECT max(received_at) FROM deliveries
-- next
-- known_deliveries
SELECT delivery_id FROM deliveries WHERE delivery_id = ANY ('{delivery-2}')
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{21}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 13:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{21}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000021+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-2-a}', '{runner-2-a}', 2, 'dispatch', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- commit_claims: each for itself, one account's setbacks after the other's
SELECT said.uid, commit_claim(said.uid, said.generation, said.runner_name, said.session, said.by,
                              'runner ' || said.runner_name || ' was minted', '2026-06-01 13:00:00+00:00'::timestamptz)
FROM (
    SELECT said.* FROM unnest('{uid-2-a}'::text[], '{6}'::int2[]::bigint[], '{runner-2-a-mint}'::text[], '{t}'::bool[]::boolean[],
                              '{dispatch}'::text[]) AS said (uid, generation, runner_name, session, by)
    LEFT JOIN claims c ON c.pod_uid = said.uid LEFT JOIN jobs j ON j.job_id = c.job_id
    ORDER BY c.account_id, j.repository
) said
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(21))
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 21, job_started_at = coalesce(job_started_at, '2026-06-01 13:00:00+00:00'::timestamptz),
    job_ended_at = coalesce(job_ended_at, NULL)
WHERE account_id = 1 AND runner_name = 'runner-2-a-mint'
-- next
-- completion
SELECT job_id, account_id, conclusion, runner_name, completed_at, recorded_at FROM completions WHERE job_id = 21
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-2-a-mint') OR job_id = 21
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{21,21}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- claim_executes: GitHub proved which job this runner executes
UPDATE claims SET job_id = 21, executing_since = coalesce(executing_since, '2026-06-01 13:00:00+00:00'::timestamptz)
WHERE generation = 6
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 21, 1, 'mac-m4', 'macos', 6, 14336, 'running', NULL,
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000021+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz, NULL, 'runner-2-a-mint', '2026-06-01 13:00:00+00:00'::timestamptz, 'webhook', 'GitHub gave it to runner runner-2-a-mint'
WHERE 'running' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 21)
ON CONFLICT (job_id) DO NOTHING
-- next
-- job_runs: bound to the claim of the runner that executes it, or to none of ours
-- (a job that this runner is known to run keeps its binding even if the claim is gone: it is the handle to put it back by)
UPDATE jobs SET status = 'running', generation = 6, pod_uid = 'uid-2-a', pod_name = 'runner-2-a',
    runner_name = 'runner-2-a-mint', started_at = coalesce(started_at, '2026-06-01 13:00:00+00:00'::timestamptz), not_before = NULL,
    changed_at = '2026-06-01 13:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub gave it to runner runner-2-a-mint'
WHERE job_id = 21 AND status IN ('queued', 'claimed', 'running')
  AND NOT (6::bigint IS NULL AND status = 'running' AND runner_name = 'runner-2-a-mint')
-- next
-- note_progress: a late copy of an older report changes nothing
INSERT INTO progress (pod_uid, mark, changed_at, seen_at) VALUES ('uid-2-a', '1 running', '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz)
ON CONFLICT (pod_uid) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at,
    changed_at = CASE WHEN progress.mark = excluded.mark THEN progress.changed_at ELSE excluded.changed_at END
WHERE progress.seen_at <= excluded.seen_at
-- next
-- progress_of_pods
SELECT pod_uid, mark, changed_at, seen_at FROM progress WHERE pod_uid = ANY ('{uid-2-a}')
-- next
-- running_jobs: oldest first
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'running' AND started_at < '2026-06-01 14:00:00+00:00'::timestamptz ORDER BY started_at, job_id LIMIT 10000
-- next
-- open_sessions: oldest first
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE ended_at IS NULL AND started_at < '9999-12-31 23:59:59.999999+00:00'::timestamptz ORDER BY started_at, pod_uid
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(21))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (21, 1, 'success', 'runner-2-a-mint', '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 21, job_started_at = coalesce(job_started_at, NULL),
    job_ended_at = coalesce(job_ended_at, '2026-06-01 13:00:00+00:00'::timestamptz)
WHERE account_id = 1 AND runner_name = 'runner-2-a-mint'
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-2-a-mint') OR job_id = 21
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{21,21}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'completed', conclusion = 'success', completed_at = '2026-06-01 13:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce('runner-2-a-mint', runner_name),
    not_before = NULL, changed_at = '2026-06-01 13:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: success'
WHERE job_id = 21 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 21, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'success',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000021+00:00'::timestamptz, NULL, '2026-06-01 13:00:00+00:00'::timestamptz, 'runner-2-a-mint', '2026-06-01 13:00:00+00:00'::timestamptz, 'webhook', 'GitHub: success'
WHERE 'completed' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 21)
ON CONFLICT (job_id) DO NOTHING
-- next
-- end_claims_of_executor
SELECT * FROM end_claims('{6}'::int2[], 'live', NULL, false, 'webhook', 'its runner finished job 21', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- completion
SELECT job_id, account_id, conclusion, runner_name, completed_at, recorded_at FROM completions WHERE job_id = 21
-- next
-- end_sessions: of two reports the earlier moment counts, and never one before the start
WITH reported AS (
    SELECT * FROM unnest('{uid-2-a}'::text[], '{"2026-06-01 13:00:00+00:00"}'::timestamptz[]::timestamptz[]) AS r (pod_uid, ended_at)
), old AS (
    SELECT s.pod_uid, s.ended_at FROM sessions s JOIN reported USING (pod_uid) ORDER BY s.pod_uid FOR UPDATE OF s
), ended AS (
    UPDATE sessions s SET ended_at = least(s.ended_at, greatest(s.started_at, r.ended_at)),
        end_reason = CASE WHEN s.ended_at IS NULL THEN 'the Pod ended' ELSE s.end_reason END
    FROM reported r JOIN old USING (pod_uid)
    WHERE s.pod_uid = r.pod_uid AND (s.ended_at IS NULL OR (NOT false AND r.ended_at < s.ended_at))
    RETURNING s.*, old.ended_at AS before
), logged AS (
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'session', e.job_id, e.account_id, e.pod_uid, e.generation, 'open', 'ended', 'test', 'the Pod ended'
    FROM ended e WHERE e.before IS NULL
)
SELECT count(*) FROM ended
-- next
-- session_of_pod
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE pod_uid = 'uid-2-a'
-- next
-- sessions_of_job: every Pod that was minted for it or executed it
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE job_id = 21
UNION SELECT s.pod_uid, s.pod_name, s.generation, s.account_id, s.job_id, s.executed_job_id, s.pool, s.platform, s.vcpus, s.memory_mb, s.runner_name, s.repository, s.workflow_name, s.started_at, s.ended_at, s.end_reason, s.job_started_at, s.job_ended_at FROM jobs j JOIN sessions s ON s.account_id = j.account_id AND s.runner_name = j.runner_name
WHERE j.job_id = 21 ORDER BY started_at
-- next
-- sessions_of_pods
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE pod_uid = ANY ('{uid-2-a}')
-- next
-- runners_by_name: whose session is known, with the Pod's uid and whether it ended
SELECT pod_uid, pod_name, generation, account_id, job_id, executed_job_id, pool, platform, vcpus, memory_mb, runner_name, repository, workflow_name, started_at, ended_at, end_reason, job_started_at, job_ended_at FROM sessions WHERE account_id = ANY ('{1}'::int2[]) AND runner_name = ANY ('{runner-2-a-mint}')
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{22}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 13:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{22}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000022+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-2-b}', '{runner-2-b}', NULL, 'dispatch', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- claim_of_pod
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE pod_uid = 'uid-2-b' AND state <> 'fenced'
-- next
-- live_claims: every Pod that is held for a job
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE state <> 'fenced' ORDER BY claimed_at, pod_uid
-- next
-- release
SELECT * FROM end_claims(
    (SELECT array_agg(generation) FROM claims WHERE generation = 7 AND pod_uid = 'uid-2-b'),
    'live', NULL, false, 'test', 'the mint was refused', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- queued_jobs: oldest first
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'queued' AND enqueued_at < '2026-06-01 14:00:00+00:00'::timestamptz AND enqueued_at > '2025-04-27 12:00:00+00:00'::timestamptz
ORDER BY enqueued_at, job_id LIMIT 1000
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- in_line: the jobs that have waited longest
WITH line AS (
    SELECT * FROM jobs WHERE status = 'queued' ORDER BY enqueued_at, job_id LIMIT 100
)
-- why_it_waits: each waiting job beside everything that may hold it up; its place is the one that claiming would give it
, places AS (
    SELECT of_pool.pool, place.job_id, place.number::integer AS number, count(*) OVER (PARTITION BY of_pool.pool) AS ranked
    FROM (SELECT DISTINCT pool FROM line) of_pool
    CROSS JOIN LATERAL unnest(next_jobs(of_pool.pool, 100, '2026-06-01 13:00:00+00:00'::timestamptz, '{}')) WITH ORDINALITY AS place (job_id, number)
)
SELECT line.job_id, line.account_id, a.login, line.repository, line.workflow_name, line.job_name, line.pool,
       line.platform, line.label, line.vcpus, line.memory_mb, line.enqueued_at, line.mint_failures, line.not_before,
       line.changed_why, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       setback.repository AS setback_repository, setback.not_before AS setback_until, setback.why AS setback_why,
       places.number AS position,
       coalesce((SELECT max(p.ranked) FROM places p WHERE p.pool = line.pool), 0)::integer AS ranked
FROM line JOIN accounts a USING (account_id)
LEFT JOIN limits l ON l.account_id = line.account_id AND l.platform = line.platform
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
LEFT JOIN LATERAL (SELECT s.repository, s.not_before, s.why FROM setbacks s
                   WHERE s.account_id = line.account_id AND s.repository IN ('', line.repository)
                     AND s.not_before > '2026-06-01 13:00:00+00:00'::timestamptz ORDER BY s.not_before DESC LIMIT 1) setback ON true
LEFT JOIN places ON places.pool = line.pool AND places.job_id = line.job_id
ORDER BY line.enqueued_at, line.job_id
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-2-c}', '{runner-2-c}', NULL, 'dispatch', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- commit_claims: each for itself, one account's setbacks after the other's
SELECT said.uid, commit_claim(said.uid, said.generation, said.runner_name, said.session, said.by,
                              'runner ' || said.runner_name || ' was minted', '2026-06-01 13:00:00+00:00'::timestamptz)
FROM (
    SELECT said.* FROM unnest('{uid-2-c}'::text[], '{8}'::int2[]::bigint[], '{runner-2-c-mint}'::text[], '{t}'::bool[]::boolean[],
                              '{dispatch}'::text[]) AS said (uid, generation, runner_name, session, by)
    LEFT JOIN claims c ON c.pod_uid = said.uid LEFT JOIN jobs j ON j.job_id = c.job_id
    ORDER BY c.account_id, j.repository
) said
-- next
-- job
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE job_id = 22
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(22))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (22, 1, 'failure', 'runner-2-c-mint', '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- session_executes
UPDATE sessions SET executed_job_id = 22, job_started_at = coalesce(job_started_at, NULL),
    job_ended_at = coalesce(job_ended_at, '2026-06-01 13:00:00+00:00'::timestamptz)
WHERE account_id = 1 AND runner_name = 'runner-2-c-mint'
-- next
-- claims_concerned: the claim of the runner that speaks, and the claim that was made for the job, in the order of locks
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims
WHERE (account_id = 1 AND runner_name = 'runner-2-c-mint') OR job_id = 22
ORDER BY pod_uid FOR UPDATE
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{22,22}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'completed', conclusion = 'failure', completed_at = '2026-06-01 13:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce('runner-2-c-mint', runner_name),
    not_before = NULL, changed_at = '2026-06-01 13:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: failure'
WHERE job_id = 22 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 22, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'failure',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000022+00:00'::timestamptz, NULL, '2026-06-01 13:00:00+00:00'::timestamptz, 'runner-2-c-mint', '2026-06-01 13:00:00+00:00'::timestamptz, 'webhook', 'GitHub: failure'
WHERE 'completed' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 22)
ON CONFLICT (job_id) DO NOTHING
-- next
-- end_claims_of_executor
SELECT * FROM end_claims('{8}'::int2[], 'live', NULL, false, 'webhook', 'its runner finished job 22', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- end_sessions: of two reports the earlier moment counts, and never one before the start
WITH reported AS (
    SELECT * FROM unnest('{uid-2-c}'::text[], '{"2026-06-01 13:00:00+00:00"}'::timestamptz[]::timestamptz[]) AS r (pod_uid, ended_at)
), old AS (
    SELECT s.pod_uid, s.ended_at FROM sessions s JOIN reported USING (pod_uid) ORDER BY s.pod_uid FOR UPDATE OF s
), ended AS (
    UPDATE sessions s SET ended_at = least(s.ended_at, greatest(s.started_at, r.ended_at)),
        end_reason = CASE WHEN s.ended_at IS NULL THEN 'the Pod ended' ELSE s.end_reason END
    FROM reported r JOIN old USING (pod_uid)
    WHERE s.pod_uid = r.pod_uid AND (s.ended_at IS NULL OR (NOT false AND r.ended_at < s.ended_at))
    RETURNING s.*, old.ended_at AS before
), logged AS (
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'session', e.job_id, e.account_id, e.pod_uid, e.generation, 'open', 'ended', 'test', 'the Pod ended'
    FROM ended e WHERE e.before IS NULL
)
SELECT count(*) FROM ended
-- next
-- release_stopped: what was never minted waits again; a job that was handed over is left for GitHub to speak about
SELECT * FROM end_claims((SELECT array_agg(generation) FROM claims WHERE pod_uid = 'uid-2-c'),
    'unminted', NULL, false, 'test', 'the Pod ended', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- jobs_running_on: by the Pod, whether its claim is still there or not
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id, workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, claimed_at, started_at, completed_at, generation, pod_uid, pod_name, runner_name, mint_failures, not_before, changed_at, changed_by, changed_why FROM jobs WHERE status = 'running' AND pod_uid = 'uid-2-c' ORDER BY job_id
-- next
-- try_job_locks: those that nobody is being told about; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest('{23}'::int2[]::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
-- next
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, '2026-06-01 13:00:00+00:00'::timestamptz, by, 'announced by GitHub'
FROM unnest('{23}'::int2[]::bigint[], '{1}'::int2[]::bigint[], '{mac-m4}'::text[], '{macos}'::text[], '{6}'::int2[]::integer[],
    '{14336}'::int2[]::integer[], '{org1/app}'::text[], '{0}'::int2[]::bigint[], '{build}'::text[],
    '{1}'::int2[]::integer[], '{""}'::text[], '{""}'::text[], '{""}'::text[], '{paddock-macos}'::text[],
    '{"2026-06-01 12:00:00.000023+00:00"}'::timestamptz[]::timestamptz[], '{webhook}'::text[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- claim_jobs: the pool's next jobs to these waiting Pods
SELECT * FROM claim_jobs('mac-m4', '{uid-2-d}', '{runner-2-d}', NULL, 'dispatch', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- release
SELECT * FROM end_claims(
    (SELECT array_agg(generation) FROM claims WHERE generation = 9 AND pod_uid = 'uid-2-d'),
    'live', '2026-06-01 13:00:05.813668+00:00'::timestamptz, true, 'test', 'GitHub refused', '2026-06-01 13:00:00+00:00'::timestamptz)
-- next
-- setback: leave the account or the repository alone for a while
INSERT INTO setbacks (account_id, repository, failures, not_before, why)
VALUES (1, 'org1/app', 1, '2026-06-01 13:00:05.090545+00:00'::timestamptz, 'GitHub refused')
ON CONFLICT (account_id, repository) DO UPDATE
    SET failures = setbacks.failures + 1, why = excluded.why,
        not_before = greatest(setbacks.not_before, '2026-06-01 13:00:00+00:00'::timestamptz + least(
            900.0, 5.0 * power(2.0, least(setbacks.failures, 30))) * interval '1 second')
-- next
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest('{mac-m4}'::text[]) AS pool
-- next
-- lock_job: orders everything that is said about one job
SELECT pg_advisory_xact_lock(job_lock_key(23))
-- next
-- record_completion: the first word about the end is the last
INSERT INTO completions (job_id, account_id, conclusion, runner_name, completed_at, recorded_at)
VALUES (23, 1, 'cancelled', NULL, '2026-06-01 13:00:00+00:00'::timestamptz, '2026-06-01 13:00:00+00:00'::timestamptz)
ON CONFLICT DO NOTHING
-- next
-- jobs_concerned: in the order of locks
SELECT job_id FROM jobs WHERE job_id = ANY ('{23}'::int2[]) ORDER BY job_id FOR UPDATE
-- next
-- finish_job: from whatever it was; a finished one keeps its first end
UPDATE jobs SET status = 'cancelled', conclusion = 'cancelled', completed_at = '2026-06-01 13:00:00+00:00'::timestamptz,
    started_at = coalesce(started_at, NULL), runner_name = coalesce(NULL, runner_name),
    not_before = NULL, changed_at = '2026-06-01 13:00:00+00:00'::timestamptz, changed_by = 'webhook', changed_why = 'GitHub: cancelled'
WHERE job_id = 23 AND status NOT IN ('completed', 'cancelled')
-- next
-- insert_job: nothing happens if the job is known or has finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, workflow_run_id,
    workflow_name, run_attempt, job_name, head_branch, head_sha, label, enqueued_at, started_at, completed_at, runner_name,
    changed_at, changed_by, changed_why)
SELECT 23, 1, 'mac-m4', 'macos', 6, 14336, 'cancelled', 'cancelled',
    'org1/app', 0, 'build', 1, '', '', '',
    'paddock-macos', '2026-06-01 12:00:00.000023+00:00'::timestamptz, NULL, '2026-06-01 13:00:00+00:00'::timestamptz, NULL, '2026-06-01 13:00:00+00:00'::timestamptz, 'webhook', 'GitHub: cancelled'
WHERE 'cancelled' <> 'queued' OR NOT EXISTS (SELECT FROM completions WHERE job_id = 23)
ON CONFLICT (job_id) DO NOTHING
-- next
-- raise_fence: a claim under way is waited for, and then wins
WITH raised AS (
    INSERT INTO claims (pod_uid, pod_name, state, claimed_at, by, why)
    VALUES ('uid-2-e', 'runner-2-e', 'fenced', '2026-06-01 13:00:00+00:00'::timestamptz, 'test', 'drained')
    ON CONFLICT DO NOTHING
    RETURNING pod_uid, pod_name, generation, claimed_at AS raised_at, by, why
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'fence', pod_uid, pod_name, generation, '', 'fenced', by, why FROM raised
)
SELECT * FROM raised
-- next
-- fence_of_pod
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE pod_uid = 'uid-2-e' AND state = 'fenced'
-- next
-- standing_fences
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE state = 'fenced' AND claimed_at <= '2026-06-01 13:00:00+00:00'::timestamptz ORDER BY claimed_at, pod_uid
-- next
-- standing_fences
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE state = 'fenced' AND claimed_at <= '2026-06-01 13:00:00+00:00'::timestamptz ORDER BY claimed_at, pod_uid
-- next
-- lift_fence
WITH lifted AS (
    DELETE FROM claims WHERE pod_uid = 'uid-2-e' AND generation = 10 AND state = 'fenced' RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT '2026-06-01 13:00:00+00:00'::timestamptz, 'fence', pod_uid, pod_name, generation, 'fenced', 'lifted', 'test', 'the Pod is gone' FROM lifted
)
SELECT count(*) FROM lifted
-- next
-- stale_claims: never minted, and either old or left by a dispatcher that stopped beating
SELECT c.pod_uid, c.pod_name, c.generation, c.state, c.job_id, c.account_id, c.pool, c.platform, c.vcpus, c.memory_mb,
       c.runner_name, c.dispatcher_id, c.claimed_at, c.executing_since, c.missing_since, c.by, c.why
FROM claims c LEFT JOIN dispatchers d USING (dispatcher_id)
WHERE c.state = 'claimed' AND (c.claimed_at < '2026-06-01 13:00:00+00:00'::timestamptz OR d.seen_at < '2026-06-01 13:00:00+00:00'::timestamptz)
ORDER BY c.claimed_at, c.pod_uid
-- next
-- note_missing: the first absence is remembered, a reappearance forgets it
WITH concerned AS (
    SELECT pod_uid FROM claims
    WHERE state <> 'fenced' AND claimed_at < '2026-06-01 13:00:00+00:00'::timestamptz
      AND (missing_since IS NULL) <> (pod_uid = ANY ('{}'))
    ORDER BY pod_uid FOR UPDATE
)
UPDATE claims c SET missing_since = CASE WHEN c.pod_uid = ANY ('{}') THEN NULL ELSE coalesce(missing_since, '2026-06-01 13:00:00+00:00'::timestamptz) END
FROM concerned WHERE concerned.pod_uid = c.pod_uid
-- next
-- missing_claims: oldest absence first
SELECT pod_uid, pod_name, generation, state, job_id, account_id, pool, platform, vcpus, memory_mb, runner_name,
       dispatcher_id, claimed_at, executing_since, missing_since, by, why
FROM claims WHERE missing_since < '2026-06-01 13:00:00+00:00'::timestamptz AND state <> 'fenced' ORDER BY missing_since, pod_uid
-- next
-- intend_heal: asked again by whoever resumes, it is the same intent with fresher evidence
INSERT INTO heals (at, kind, subject, pod_uid, job_id, sentence, evidence, seconds)
VALUES ('2026-06-01 13:00:00+00:00'::timestamptz, 'LeakedPod', 'runner-2-e', 'uid-2-e', 23, 'is deleted', '{}'::jsonb, 0.0)
ON CONFLICT (kind, pod_uid) WHERE done_at IS NULL DO UPDATE
    SET sentence = excluded.sentence, evidence = excluded.evidence, seconds = excluded.seconds
RETURNING id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at
-- next
-- intended_heals: under way, or left half done
SELECT id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at FROM heals WHERE done_at IS NULL ORDER BY at, id
-- next
-- heal_done: the intent of that kind for that Pod, if there is one
UPDATE heals SET done_at = '2026-06-01 13:00:00+00:00'::timestamptz, seconds = greatest(seconds, 0.0)
WHERE kind = 'LeakedPod' AND pod_uid = 'uid-2-e' AND pod_uid <> '' AND done_at IS NULL RETURNING id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at
-- next
-- newest_heals
SELECT id, at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at FROM heals ORDER BY id DESC LIMIT 100
-- next
-- count_heals_by_kind: what was done
SELECT kind, count(*) FROM heals WHERE at >= '2025-04-27 12:00:00+00:00'::timestamptz AND done_at IS NOT NULL GROUP BY kind
-- next
-- usage: what is held under each limit, as admission counts it
SELECT l.account_id, l.platform, l.vcpus, l.memory_mb, coalesce(sum(c.vcpus), 0)::integer AS used_vcpus,
       coalesce(sum(c.memory_mb), 0)::integer AS used_memory_mb, count(c.pod_uid)::integer AS claims
FROM limits l LEFT JOIN claims c ON c.limit_id = l.limit_id
WHERE NULL::bigint IS NULL OR l.account_id = NULL
GROUP BY l.limit_id, l.account_id, l.platform, l.vcpus, l.memory_mb
ORDER BY l.account_id, l.platform
-- next
-- pool_signals: queued jobs count only as far as their account may run them now
WITH line AS (
    SELECT j.account_id, j.platform, count(*) AS jobs, max(j.vcpus) AS vcpus, max(j.memory_mb) AS memory_mb,
           min(j.enqueued_at) AS oldest
    FROM jobs j WHERE j.status = 'queued' AND j.pool = 'mac-m4' AND j.enqueued_at > '2026-06-01 13:00:00+00:00'::timestamptz - interval '7 days'
    GROUP BY j.account_id, j.platform
), room AS (
    SELECT line.jobs, line.oldest, greatest(0, least(
               (l.vcpus - coalesce(used.vcpus, 0)) / line.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / line.memory_mb)) AS headroom
    FROM line LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
), queue AS (
    SELECT coalesce(sum(jobs), 0)::integer AS raw,
           coalesce(sum(least(jobs, coalesce(headroom, 0))), 0)::integer AS queued,
           min(oldest) FILTER (WHERE headroom > 0) AS oldest
    FROM room
), held AS (
    SELECT count(*)::integer AS claimed FROM claims WHERE pool = 'mac-m4'
), occupying AS (
    SELECT count(*)::integer AS pods FROM (
        SELECT pod_uid FROM claims WHERE pool = 'mac-m4'
        UNION SELECT pod_uid FROM sessions
        WHERE pool = 'mac-m4' AND ended_at IS NULL AND started_at > '2026-06-01 13:00:00+00:00'::timestamptz - '6:00:00'::interval::interval
    ) pods
), minutes AS (
    -- the non-empty minutes of the last hour, by how many sessions each saw
    SELECT count(*) AS sessions
    FROM generate_series('2026-06-01 13:00:00+00:00'::timestamptz - interval '59 minutes', '2026-06-01 13:00:00+00:00'::timestamptz, interval '1 minute') AS minute
    JOIN sessions s ON s.pool = 'mac-m4' AND s.started_at > '2026-06-01 13:00:00+00:00'::timestamptz - '6:00:00'::interval::interval - interval '1 hour'
        AND s.started_at <= minute AND coalesce(s.ended_at, s.started_at + '6:00:00'::interval::interval) > minute - interval '1 minute'
    GROUP BY minute
)
SELECT 'mac-m4' AS pool, held.claimed, greatest(held.claimed, occupying.pods) AS occupied, queue.queued,
       queue.raw - queue.queued AS withheld,
       coalesce(extract(epoch FROM '2026-06-01 13:00:00+00:00'::timestamptz - queue.oldest), 0)::float8 AS oldest_dispatchable_seconds,
       coalesce((SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY sessions) FROM minutes), 0)::integer
           AS p95_concurrent_last_hour
FROM queue, held, occupying
-- next
-- line_by_account: who waits where, since when, and whether the next of them may run now
WITH line AS (
    SELECT j.pool, j.account_id, j.platform, min(j.vcpus) AS vcpus, min(j.memory_mb) AS memory_mb,
           min(j.enqueued_at) AS oldest
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > '2026-06-01 13:00:00+00:00'::timestamptz - interval '7 days'
    GROUP BY j.pool, j.account_id, j.platform
)
SELECT line.pool, line.account_id, line.platform, line.oldest,
       coalesce(coalesce(used.vcpus, 0) + line.vcpus <= l.vcpus
                AND coalesce(used.memory_mb, 0) + line.memory_mb <= l.memory_mb, false) AS may_run
FROM line LEFT JOIN limits l USING (account_id, platform)
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- strip: the same rule as the autoscaler's signals, over all pools
WITH line AS (
    SELECT j.account_id, j.platform, j.vcpus, j.memory_mb, j.enqueued_at,
           coalesce(j.not_before > '2026-06-01 13:00:00+00:00'::timestamptz, false) OR EXISTS (
               SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                        AND s.not_before > '2026-06-01 13:00:00+00:00'::timestamptz) AS rests
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > '2026-06-01 13:00:00+00:00'::timestamptz - interval '7 days'
), accounts_in_line AS (
    SELECT account_id, platform, count(*) FILTER (WHERE NOT rests) AS jobs, count(*) FILTER (WHERE rests) AS resting,
           max(vcpus) AS vcpus, max(memory_mb) AS memory_mb, min(enqueued_at) FILTER (WHERE NOT rests) AS oldest
    FROM line GROUP BY account_id, platform
), room AS (
    SELECT a.jobs, a.resting, a.oldest, greatest(0, coalesce(least(
               (l.vcpus - coalesce(used.vcpus, 0)) / a.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / a.memory_mb), 0)) AS headroom
    FROM accounts_in_line a LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
)
SELECT coalesce(extract(epoch FROM '2026-06-01 13:00:00+00:00'::timestamptz - min(oldest) FILTER (WHERE headroom > 0)), 0)::float8
           AS oldest_dispatchable_seconds,
       coalesce(sum(least(jobs, headroom)), 0)::integer AS dispatchable,
       coalesce(sum(jobs - least(jobs, headroom)), 0)::integer AS withheld,
       coalesce(sum(resting), 0)::integer AS resting,
       (SELECT count(*) FROM claims WHERE state = 'claimed')::integer AS claimed,
       (SELECT count(*) FROM jobs WHERE status = 'running')::integer AS running,
       (SELECT count(*) FROM sessions WHERE ended_at IS NULL)::integer AS sessions_open,
       (SELECT count(*) FROM completions WHERE completed_at > '2026-06-01 13:00:00+00:00'::timestamptz - interval '1 hour')::integer AS completed_last_hour
FROM room
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- running_for_people: longest first
SELECT j.job_id, j.account_id, a.login, j.repository, j.workflow_name, j.job_name, j.pool, j.platform, j.enqueued_at,
       j.claimed_at, j.started_at, c.executing_since, j.pod_uid, j.pod_name, j.runner_name
FROM jobs j JOIN accounts a USING (account_id) LEFT JOIN claims c ON c.job_id = j.job_id
WHERE j.status = 'running' AND j.started_at IS NOT NULL ORDER BY j.started_at, j.job_id LIMIT 100
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- recent: the young end of the completions
WITH latest AS (
    SELECT * FROM completions ORDER BY completed_at DESC LIMIT 100
)
SELECT f.job_id, f.account_id, a.login, coalesce(j.repository, '') AS repository,
       coalesce(j.workflow_name, '') AS workflow_name, coalesce(j.job_name, '') AS job_name,
       coalesce(j.pool, '') AS pool, f.conclusion, f.runner_name, j.enqueued_at, j.started_at, f.completed_at
FROM latest f JOIN accounts a USING (account_id) LEFT JOIN jobs j USING (job_id)
ORDER BY f.completed_at DESC, f.job_id DESC
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- latency: jobs that ended in the window or run since, at most so many; a runner's own session says when GitHub started it
WITH concerned AS (
    (SELECT job_id FROM completions WHERE completed_at > '2026-06-01 12:00:00+00:00'::timestamptz ORDER BY completed_at DESC LIMIT 10000)
    UNION
    (SELECT job_id FROM jobs WHERE status = 'running' AND started_at > '2026-06-01 12:00:00+00:00'::timestamptz ORDER BY started_at DESC LIMIT 10000)
), spans AS (
    -- A job that was never claimed itself, because another's runner took it, has only a total.
    SELECT j.claimed_at - j.enqueued_at AS queued, j.started_at - j.claimed_at AS served,
           CASE WHEN j.claimed_at IS NOT NULL THEN s.job_started_at - j.started_at END AS taken_up,
           s.job_started_at - j.enqueued_at AS total
    FROM concerned JOIN jobs j USING (job_id) LEFT JOIN sessions s
         ON s.account_id = j.account_id AND s.runner_name = j.runner_name AND s.executed_job_id = j.job_id
), seconds AS (
    -- GitHub counts in whole seconds, so that its moments may lie a little before ours.
    SELECT stage.name, greatest(0, extract(epoch FROM stage.span))::float8 AS seconds
    FROM spans CROSS JOIN LATERAL (VALUES ('queued_to_claimed', queued), ('claimed_to_running', served),
                                          ('running_to_started', taken_up), ('total', total)) AS stage (name, span)
    WHERE stage.span IS NOT NULL
)
SELECT name, count(*)::integer AS count, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99
FROM seconds GROUP BY name
-- next
-- people_only_look
SET TRANSACTION READ ONLY
-- next
-- people_may_be_cut_off
SELECT set_config('statement_timeout', '3000', true)
-- next
-- accounts_for_people: whoever holds or waits for something first
WITH waiting AS (
    SELECT account_id, platform, count(*) AS jobs FROM jobs WHERE status = 'queued' GROUP BY account_id, platform
)
SELECT a.account_id, a.login, a.installation_id, l.platform, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       coalesce(used.claims, 0)::integer AS claims, coalesce(waiting.jobs, 0)::integer AS queued
FROM limits l JOIN accounts a USING (account_id)
LEFT JOIN (SELECT limit_id, sum(vcpus) AS vcpus, sum(memory_mb) AS memory_mb, count(*) AS claims FROM claims
           WHERE limit_id IS NOT NULL GROUP BY limit_id) used USING (limit_id)
LEFT JOIN waiting USING (account_id, platform)
ORDER BY coalesce(used.vcpus, 0)::float8 / l.vcpus DESC, coalesce(waiting.jobs, 0) DESC, a.login, l.platform LIMIT 1000
-- next
-- transitions_of_job
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE job_id = 21 ORDER BY transition_id
-- next
-- transitions_of_pod
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE pod_uid = 'uid-2-a' ORDER BY transition_id
-- next
-- newest_transitions
SELECT transition_id, at, subject, job_id, account_id, pod_uid, generation, was, became, by, why, pod_name FROM transitions WHERE transition_id > 0 ORDER BY transition_id DESC LIMIT 100
-- next
SELECT set_config('paddock.forgetting', 'on', true)
-- next
-- forget_transitions: a bounded bite of the oldest
DELETE FROM transitions WHERE transition_id IN (
    SELECT transition_id FROM transitions WHERE at < '2025-04-27 12:00:00+00:00'::timestamptz ORDER BY at LIMIT 10000)
-- next
-- forget_jobs: finished long ago, with their tombstones; a bounded bite of the oldest
WITH old AS (
    SELECT c.job_id FROM completions c LEFT JOIN jobs j USING (job_id)
    WHERE c.completed_at < '2025-04-27 12:00:00+00:00'::timestamptz AND (j.status IS NULL OR j.status IN ('completed', 'cancelled'))
    ORDER BY c.completed_at LIMIT 10000
), jobs_gone AS (
    DELETE FROM jobs j USING old WHERE j.job_id = old.job_id AND j.status IN ('completed', 'cancelled')
), tombstones_gone AS (
    DELETE FROM completions c USING old WHERE c.job_id = old.job_id RETURNING 1
)
SELECT count(*) FROM tombstones_gone
-- next
-- forget_sessions: ended long ago, and nothing is held for the Pod any more; a bounded bite
DELETE FROM sessions WHERE pod_uid IN (
    SELECT s.pod_uid FROM sessions s
    WHERE s.started_at < '2025-04-27 12:00:00+00:00'::timestamptz AND s.ended_at < '2025-04-27 12:00:00+00:00'::timestamptz
      AND NOT EXISTS (SELECT FROM claims c WHERE c.pod_uid = s.pod_uid)
    LIMIT 10000)
-- next
-- forget_deliveries: settled ones, a bounded bite
DELETE FROM deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM deliveries WHERE received_at < '2025-04-27 12:00:00+00:00'::timestamptz AND settled_at IS NOT NULL ORDER BY received_at LIMIT 10000)
-- next
-- forget_progress: a bounded bite of the oldest
DELETE FROM progress WHERE pod_uid IN (SELECT pod_uid FROM progress WHERE seen_at < '2025-04-27 12:00:00+00:00'::timestamptz ORDER BY seen_at LIMIT 10000)
