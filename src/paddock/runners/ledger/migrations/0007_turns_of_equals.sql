-- Whose turn it is among equals. In a pool of one Pod nobody holds anything when the next job is chosen, so that the shares
-- of all are equal: by age alone an account with a thousand old jobs would have every turn.

-- The generation with which the account last began to hold something on the platform; generations only grow, and need no
-- clock. Not written while it holds something already: then what it holds says when it was served last, and the row of a busy
-- account is not rewritten with every claim.
ALTER TABLE limits ADD COLUMN served bigint NOT NULL DEFAULT 0;
ALTER TABLE limits SET (fillfactor = 50);

-- Admit pairs of job and Pod: pair n is p_jobs[n] for p_pod_uids[n]. One row a pair, in the pairs' order.
CREATE OR REPLACE FUNCTION admit(
    p_jobs bigint[], p_pod_uids text[], p_pod_names text[], p_dispatcher bigint, p_by text, p_now timestamptz
) RETURNS SETOF admitted LANGUAGE plpgsql AS $$
DECLARE
    mine   bigint[];  -- generations that this call inserted
    turn   bigint[];  -- limits whose turnstile this call holds
    fit    bigint[];  -- generations within their limits
    won    bigint[];  -- generations whose job was still waiting
    full_  text[];    -- Pods whose pair was over the limit
    busy   text[];    -- Pods whose account's turnstile was taken
    spent  text[];    -- Pods that were handed a runner before
BEGIN
    -- The Pod and the job are taken first. Waiting for a rival for the same Pod happens here, where the account is not
    -- locked yet and so nobody else of the account has to wait with us.
    WITH taken AS (
        INSERT INTO claims (pod_uid, pod_name, state, job_id, account_id, pool, platform, vcpus, memory_mb, limit_id,
                            dispatcher_id, claimed_at, by, why)
        SELECT pair.pod_uid, pair.pod_name, 'claimed', job.job_id, job.account_id, job.pool, job.platform, job.vcpus,
               job.memory_mb, allowed.limit_id, p_dispatcher, p_now, p_by, 'waiting Pod takes the job'
        FROM unnest(p_jobs, p_pod_uids, p_pod_names) AS pair (job_id, pod_uid, pod_name)
        JOIN jobs job ON job.job_id = pair.job_id AND job.status = 'queued'
        JOIN limits allowed ON allowed.account_id = job.account_id AND allowed.platform = job.platform
        ORDER BY pair.pod_uid  -- two batches with the same Pods meet at the same one first, so neither waits in a circle
        ON CONFLICT DO NOTHING
        RETURNING generation
    ) SELECT array_agg(taken.generation) INTO mine FROM taken;

    IF mine IS NOT NULL THEN
        -- The turnstiles. SKIP LOCKED: an account that someone else is admitting for is left for later, not waited for.
        SELECT array_agg(locked.limit_id) INTO turn FROM (
            SELECT l.limit_id FROM limits l
            WHERE l.limit_id IN (SELECT c.limit_id FROM claims c WHERE c.generation = ANY (mine))
            ORDER BY l.limit_id FOR UPDATE SKIP LOCKED
        ) locked;

        -- Counted after the lock: what others hold, plus ours in the order of the pairs.
        WITH others AS (
            SELECT c.limit_id, sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
            WHERE c.limit_id = ANY (turn) AND c.generation <> ALL (mine) GROUP BY c.limit_id
        ), ours AS (
            SELECT c.generation, c.pod_uid, c.limit_id,
                   sum(c.vcpus) OVER in_order AS vcpus, sum(c.memory_mb) OVER in_order AS memory_mb
            FROM claims c JOIN unnest(p_pod_uids) WITH ORDINALITY AS pair (pod_uid, place) USING (pod_uid)
            WHERE c.generation = ANY (mine)
            WINDOW in_order AS (PARTITION BY c.limit_id ORDER BY pair.place ROWS UNBOUNDED PRECEDING)
        ), judged AS (
            SELECT ours.generation, ours.pod_uid, l.limit_id = ANY (turn) AS our_turn,
                   ours.vcpus + coalesce(others.vcpus, 0) <= l.vcpus
                   AND ours.memory_mb + coalesce(others.memory_mb, 0) <= l.memory_mb AS fits,
                   EXISTS (SELECT FROM sessions s WHERE s.pod_uid = ours.pod_uid) AS spent
            FROM ours JOIN limits l USING (limit_id) LEFT JOIN others USING (limit_id)
        )
        SELECT array_agg(j.generation) FILTER (WHERE j.our_turn AND j.fits AND NOT j.spent),
               array_agg(j.pod_uid) FILTER (WHERE j.our_turn AND NOT j.fits AND NOT j.spent),
               array_agg(j.pod_uid) FILTER (WHERE j.our_turn IS NOT TRUE AND NOT j.spent),
               array_agg(j.pod_uid) FILTER (WHERE j.spent)
        INTO fit, full_, busy, spent FROM judged j;

        -- The job follows the claim in the same transaction; one that finished in between is not ours any more.
        WITH moved AS (
            UPDATE jobs SET status = 'claimed', generation = c.generation, pod_uid = c.pod_uid, pod_name = c.pod_name,
                claimed_at = p_now, not_before = NULL, changed_at = p_now, changed_by = p_by, changed_why = c.why
            FROM claims c
            WHERE c.generation = ANY (fit) AND jobs.job_id = c.job_id AND jobs.status = 'queued'
            RETURNING jobs.generation
        ) SELECT array_agg(moved.generation) INTO won FROM moved;

        UPDATE limits l SET served = latest.generation
        FROM (SELECT c.limit_id, max(c.generation) AS generation FROM claims c WHERE c.generation = ANY (won)
              GROUP BY c.limit_id) latest
        WHERE l.limit_id = latest.limit_id AND l.served < latest.generation
          AND NOT EXISTS (SELECT FROM claims c WHERE c.limit_id = l.limit_id AND c.generation <> ALL (mine));

        IF cardinality(mine) <> coalesce(cardinality(won), 0) THEN
            DELETE FROM claims c WHERE c.generation = ANY (mine) AND c.generation <> ALL (coalesce(won, '{}'));
        END IF;
    END IF;

    RETURN QUERY
        SELECT CASE
                   WHEN c.generation IS NOT NULL THEN 'claimed'
                   WHEN pair.pod_uid = ANY (spent) THEN 'pod_spent'
                   WHEN pair.pod_uid = ANY (busy) THEN 'account_busy'
                   WHEN pair.pod_uid = ANY (full_) THEN 'limit_reached'
                   WHEN job.job_id IS NULL THEN 'unknown_job'
                   WHEN job.status <> 'queued' THEN 'lost_race'
                   WHEN held.state = 'fenced' THEN 'pod_fenced'
                   WHEN held.state IS NOT NULL THEN 'pod_in_use'
                   WHEN allowed.limit_id IS NULL THEN 'limit_missing'
                   ELSE 'lost_race'
               END,
               pair.pod_uid, pair.pod_name, c.generation, job.job_id, job.account_id, account.login, job.pool, job.platform,
               job.vcpus, job.memory_mb, job.repository, job.workflow_name, job.label, job.mint_failures,
               job.enqueued_at, c.claimed_at
        FROM unnest(p_jobs, p_pod_uids, p_pod_names) WITH ORDINALITY AS pair (job_id, pod_uid, pod_name, place)
        LEFT JOIN jobs job ON job.job_id = pair.job_id
        LEFT JOIN accounts account ON account.account_id = job.account_id
        LEFT JOIN limits allowed ON allowed.account_id = job.account_id AND allowed.platform = job.platform
        LEFT JOIN claims held ON held.pod_uid = pair.pod_uid
        LEFT JOIN claims c ON c.pod_uid = pair.pod_uid AND c.job_id = pair.job_id AND c.generation = ANY (won)
        ORDER BY pair.place;
END $$;

-- The jobs to hand out next, fairest first. The account that holds the smallest share of its own limit goes first (the
-- larger of its two shares, vCPU and memory), counting the jobs ranked before in this very answer. Of
-- equals, whoever was served longest ago; then by age, then id.
-- Left out: jobs and accounts that back off, jobs older than a week, what does not fit, and limits in p_not.
CREATE OR REPLACE FUNCTION next_jobs(p_pool text, p_count integer, p_now timestamptz, p_not bigint[])
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
RETURN (
    WITH RECURSIVE hop AS (
        (SELECT j.account_id, j.platform FROM jobs j WHERE j.status = 'queued' AND j.pool = p_pool
         ORDER BY j.account_id, j.platform LIMIT 1)
        UNION ALL
        SELECT after.account_id, after.platform FROM hop CROSS JOIN LATERAL (
            SELECT j.account_id, j.platform FROM jobs j
            WHERE j.status = 'queued' AND j.pool = p_pool AND (j.account_id, j.platform) > (hop.account_id, hop.platform)
            ORDER BY j.account_id, j.platform LIMIT 1
        ) after
    ), waiting AS (
        SELECT hop.account_id, hop.platform, l.vcpus, l.memory_mb, greatest(l.served, used.latest) AS served,
               coalesce(used.vcpus, 0) AS used_vcpus, coalesce(used.memory_mb, 0) AS used_memory,
               coalesce(resting.repositories, '{}') AS resting
        FROM hop JOIN limits l ON l.account_id = hop.account_id AND l.platform = hop.platform
        CROSS JOIN LATERAL (
            SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb, max(c.generation) AS latest FROM claims c
            WHERE c.limit_id = l.limit_id
        ) used
        CROSS JOIN LATERAL (
            SELECT array_agg(s.repository) AS repositories FROM setbacks s
            WHERE s.account_id = hop.account_id AND s.not_before > p_now
        ) resting
        WHERE l.limit_id <> ALL (p_not) AND '' <> ALL (coalesce(resting.repositories, '{}'))
    ), first_in_line AS (
        -- An account whose first job comes after p_count others' has none among the first p_count.
        SELECT w.* FROM waiting w CROSS JOIN LATERAL (
            SELECT j.enqueued_at, j.job_id FROM jobs j
            WHERE j.status = 'queued' AND j.pool = p_pool AND j.account_id = w.account_id AND j.platform = w.platform
              AND j.enqueued_at > p_now - interval '7 days'
              AND (j.not_before IS NULL OR j.not_before <= p_now) AND j.repository <> ALL (w.resting)
              AND w.used_vcpus + j.vcpus <= w.vcpus AND w.used_memory + j.memory_mb <= w.memory_mb
            ORDER BY j.enqueued_at, j.job_id LIMIT 1
        ) head
        ORDER BY greatest(w.used_vcpus::float8 / w.vcpus, w.used_memory::float8 / w.memory_mb),
                 w.served, head.enqueued_at, head.job_id
        LIMIT p_count
    ), candidates AS (
        SELECT job.job_id, job.enqueued_at, w.vcpus, w.memory_mb, w.served,
               w.used_vcpus + sum(job.vcpus) OVER in_line AS vcpus_after, job.vcpus AS own_vcpus,
               w.used_memory + sum(job.memory_mb) OVER in_line AS memory_after, job.memory_mb AS own_memory
        FROM first_in_line w CROSS JOIN LATERAL (
            SELECT j.job_id, j.enqueued_at, j.vcpus, j.memory_mb FROM jobs j
            WHERE j.status = 'queued' AND j.pool = p_pool AND j.account_id = w.account_id AND j.platform = w.platform
              AND j.enqueued_at > p_now - interval '7 days'
              AND (j.not_before IS NULL OR j.not_before <= p_now) AND j.repository <> ALL (w.resting)
              -- One that can never fit beside what runs must not hold up the smaller ones behind it.
              AND w.used_vcpus + j.vcpus <= w.vcpus AND w.used_memory + j.memory_mb <= w.memory_mb
            ORDER BY j.enqueued_at, j.job_id
            LIMIT least(p_count, greatest(w.vcpus - w.used_vcpus, 0))
        ) job
        WINDOW in_line AS (PARTITION BY w.account_id, w.platform ORDER BY job.enqueued_at, job.job_id
                           ROWS UNBOUNDED PRECEDING)
    ), ranked AS (
        SELECT c.job_id, row_number() OVER (
                   ORDER BY greatest((c.vcpus_after - c.own_vcpus)::float8 / c.vcpus,
                                     (c.memory_after - c.own_memory)::float8 / c.memory_mb),
                            c.served, c.enqueued_at, c.job_id
               ) AS place
        FROM candidates c WHERE c.vcpus_after <= c.vcpus AND c.memory_after <= c.memory_mb
    )
    SELECT array_agg(ranked.job_id ORDER BY ranked.place) FROM ranked WHERE ranked.place <= p_count
);
END $$;
