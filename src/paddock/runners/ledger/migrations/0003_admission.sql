-- Claiming, in one round trip. Each statement inside these functions sees what was committed before it, so a sum that is
-- taken after the account's turnstile was locked includes everyone who passed it earlier. That is why this is not one
-- big statement: one statement has one snapshot, and would count without seeing them.
--
-- Locks are taken in one order everywhere: the job's advisory lock, claims by Pod uid, limits, jobs by id. Only the first
-- thing a transaction does may wait for an advisory lock; admission never waits for one, nor for a limit.
--
-- The functions are planned once a session: planning anew for every set of values costs as much as the work itself. Every
-- table is reached through an index, also by a session that planned when the tables were still empty.

CREATE TYPE admitted AS (
    outcome       text,
    pod_uid       text,
    pod_name      text,
    generation    bigint,
    job_id        bigint,
    account_id    bigint,
    login         text,
    pool          text,
    platform      text,
    vcpus         integer,
    memory_mb     integer,
    repository    text,
    workflow_name text,
    label         text,
    mint_failures integer,
    enqueued_at   timestamptz,
    claimed_at    timestamptz
);

-- Admit pairs of job and Pod: pair n is p_jobs[n] for p_pod_uids[n]. One row a pair, in the pairs' order.
CREATE FUNCTION admit(
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
-- larger of its two shares, vCPU and memory), counting the jobs ranked before in this very answer; equals by age, then id.
-- Left out: jobs and accounts that back off, jobs older than a week, what does not fit, and limits in p_not.
CREATE FUNCTION next_jobs(p_pool text, p_count integer, p_now timestamptz, p_not bigint[])
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
        SELECT hop.account_id, hop.platform, l.vcpus, l.memory_mb,
               coalesce(used.vcpus, 0) AS used_vcpus, coalesce(used.memory_mb, 0) AS used_memory,
               coalesce(resting.repositories, '{}') AS resting
        FROM hop JOIN limits l ON l.account_id = hop.account_id AND l.platform = hop.platform
        CROSS JOIN LATERAL (
            SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c WHERE c.limit_id = l.limit_id
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
                 head.enqueued_at, head.job_id
        LIMIT p_count
    ), candidates AS (
        SELECT job.job_id, job.enqueued_at, w.vcpus, w.memory_mb,
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
                                     (c.memory_after - c.own_memory)::float8 / c.memory_mb), c.enqueued_at, c.job_id
               ) AS place
        FROM candidates c WHERE c.vcpus_after <= c.vcpus AND c.memory_after <= c.memory_mb
    )
    SELECT array_agg(ranked.job_id ORDER BY ranked.place) FROM ranked WHERE ranked.place <= p_count
);
END $$;

-- Hand the pool's next jobs to these waiting Pods. One row a Pod: what it got, or why it got nothing.
CREATE FUNCTION claim_jobs(
    p_pool text, p_pod_uids text[], p_pod_names text[], p_dispatcher bigint, p_by text, p_now timestamptz
) RETURNS SETOF admitted LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    uids      text[];                 -- Pods that still wait, and their names beside them
    names     text[];
    later     text[];
    later_as  text[];
    aside     bigint[] := '{}';       -- limits to leave alone for the rest of this call
    ranked    bigint[];
    picked    bigint[];
    candidate bigint;
    answer    admitted;
    spare     integer := 4;
    nothing   text := 'empty';
BEGIN
    -- A Pod that may not have a job must not use up another's turn, so it is answered before anything is ranked. One that
    -- is taken from now on is found out by admission.
    SELECT coalesce(array_agg(pod.uid ORDER BY pod.place), '{}'), coalesce(array_agg(pod.name ORDER BY pod.place), '{}')
    INTO uids, names
    FROM unnest(p_pod_uids, p_pod_names) WITH ORDINALITY AS pod (uid, name, place)
    WHERE NOT EXISTS (SELECT FROM claims held WHERE held.pod_uid = pod.uid)
      AND NOT EXISTS (SELECT FROM sessions spent WHERE spent.pod_uid = pod.uid);
    -- A Pod that another batch has in hand is left to it, and never waited for: two batches that take the same Pods in
    -- several rounds would otherwise wait for each other in a circle.
    FOR place IN 1..cardinality(uids) LOOP
        IF pg_try_advisory_xact_lock(hashtextextended('pod/' || uids[place], 0)) THEN
            later := later || uids[place];
            later_as := later_as || names[place];
        END IF;
    END LOOP;
    uids := coalesce(later, '{}');
    names := coalesce(later_as, '{}');
    IF cardinality(uids) < cardinality(p_pod_uids) THEN
        RETURN QUERY
            SELECT CASE WHEN held.state = 'fenced' THEN 'pod_fenced'
                        WHEN held.state IS NOT NULL THEN 'pod_in_use'
                        WHEN EXISTS (SELECT FROM sessions spent WHERE spent.pod_uid = pod.uid) THEN 'pod_spent'
                        ELSE 'lost_race' END,  -- set free between the two statements: worth asking again
                   pod.uid, pod.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::text,
                   NULL::integer, NULL::integer, NULL::text, NULL::text, NULL::text, NULL::integer,
                   NULL::timestamptz, NULL::timestamptz
            FROM unnest(p_pod_uids, p_pod_names) AS pod (uid, name) LEFT JOIN claims held ON held.pod_uid = pod.uid
            WHERE pod.uid <> ALL (uids);
    END IF;

    FOR round IN 1..4 LOOP
        EXIT WHEN cardinality(uids) = 0;
        -- A few more than needed, and many more after a collision: rivals that rank at the same moment start alike.
        ranked := next_jobs(p_pool, cardinality(uids) + spare, p_now, aside);
        EXIT WHEN ranked IS NULL;

        picked := '{}';
        FOREACH candidate IN ARRAY ranked LOOP
            IF pg_try_advisory_xact_lock(job_lock_key(candidate)) THEN
                picked := picked || candidate;
                EXIT WHEN cardinality(picked) = cardinality(uids);
            END IF;
        END LOOP;
        IF cardinality(picked) < cardinality(uids) AND cardinality(ranked) > cardinality(picked) THEN
            spare := 4 * spare;
        END IF;
        IF cardinality(picked) = 0 THEN
            nothing := 'lost_race';
            CONTINUE;
        END IF;

        later := uids[cardinality(picked) + 1:];
        later_as := names[cardinality(picked) + 1:];
        FOR answer IN SELECT * FROM admit(picked, uids[:cardinality(picked)], names[:cardinality(picked)],
                                          p_dispatcher, p_by, p_now) LOOP
            IF answer.outcome IN ('claimed', 'pod_in_use', 'pod_fenced', 'pod_spent') THEN
                RETURN NEXT answer;
            ELSE
                IF answer.outcome IN ('account_busy', 'limit_reached') THEN
                    aside := aside || (SELECT l.limit_id FROM limits l
                                       WHERE l.account_id = answer.account_id AND l.platform = answer.platform);
                END IF;
                IF answer.outcome = 'account_busy' THEN
                    nothing := 'account_busy';
                ELSIF nothing = 'empty' THEN
                    nothing := answer.outcome;
                END IF;
                later := later || answer.pod_uid;
                later_as := later_as || answer.pod_name;
            END IF;
        END LOOP;
        uids := later;
        names := later_as;
    END LOOP;

    RETURN QUERY
        SELECT nothing, pod.uid, pod.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::text,
               NULL::integer, NULL::integer, NULL::text, NULL::text, NULL::text, NULL::integer,
               NULL::timestamptz, NULL::timestamptz
        FROM unnest(uids, names) AS pod (uid, name);
END $$;

-- This very job for this Pod. What is being said about the job right now comes first.
CREATE FUNCTION attempt_job(
    p_job bigint, p_pod_uid text, p_pod_name text, p_dispatcher bigint, p_by text, p_now timestamptz
) RETURNS SETOF admitted LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    answer admitted;
BEGIN
    IF pg_try_advisory_xact_lock(job_lock_key(p_job)) THEN
        RETURN QUERY SELECT * FROM admit(ARRAY[p_job], ARRAY[p_pod_uid], ARRAY[p_pod_name], p_dispatcher, p_by, p_now);
    ELSE
        answer.outcome := 'lost_race';
        answer.pod_uid := p_pod_uid;
        answer.pod_name := p_pod_name;
        RETURN NEXT answer;
    END IF;
END $$;

-- Confirm a claim after the mint: claim and job become running and, if asked, the session is recorded, all or nothing.
-- Saying it twice is the same as saying it once.
CREATE FUNCTION commit_claim(
    p_pod_uid text, p_generation bigint, p_runner_name text, p_with_session boolean, p_by text, p_why text, p_now timestamptz
) RETURNS text LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    held claims;
    job  jobs;
BEGIN
    SELECT * INTO held FROM claims c
    WHERE c.pod_uid = p_pod_uid AND c.generation = p_generation AND c.state <> 'fenced' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'stale';
    END IF;
    IF held.state = 'running' AND held.runner_name <> p_runner_name THEN
        RETURN 'stale';  -- another mint of this claim was confirmed; this one must not be handed out
    END IF;
    SELECT * INTO job FROM jobs j WHERE j.job_id = held.job_id AND j.generation = p_generation FOR UPDATE;
    IF held.state = 'claimed' THEN
        IF job.job_id IS NULL OR job.status <> 'claimed' THEN
            RETURN 'job_gone';  -- finished, or proven to run elsewhere: the runner would find nothing to do
        END IF;
        UPDATE claims SET state = 'running', runner_name = p_runner_name, by = p_by, why = p_why
        WHERE claims.pod_uid = p_pod_uid;
        UPDATE jobs SET status = 'running', runner_name = p_runner_name, started_at = coalesce(started_at, p_now),
            mint_failures = 0, changed_at = p_now, changed_by = p_by, changed_why = p_why
        WHERE jobs.job_id = held.job_id;
        DELETE FROM setbacks s WHERE s.account_id = held.account_id AND s.repository IN ('', job.repository);
    END IF;
    IF p_with_session THEN
        WITH opened AS (
            INSERT INTO sessions (pod_uid, pod_name, generation, account_id, job_id, pool, platform, vcpus, memory_mb,
                                  runner_name, repository, workflow_name, started_at)
            SELECT held.pod_uid, held.pod_name, held.generation, held.account_id, held.job_id, held.pool, held.platform,
                   held.vcpus, held.memory_mb, p_runner_name, coalesce(job.repository, ''), coalesce(job.workflow_name, ''),
                   held.claimed_at
            ON CONFLICT (pod_uid) DO NOTHING
            RETURNING job_id
        )
        INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
        SELECT p_now, 'session', opened.job_id, held.account_id, held.pod_uid, held.generation, '', 'open', p_by, p_why
        FROM opened;
    END IF;
    RETURN 'running';
END $$;

-- The one place where claims end: the row goes, the job goes back into the queue if it is still this claim's and not
-- finished, and the log says so. p_requeue: 'live' puts back whatever is not finished, 'unminted' only what was never
-- minted, 'none' nothing.
CREATE FUNCTION end_claims(
    p_generations bigint[], p_requeue text, p_not_before timestamptz, p_failed boolean, p_by text, p_why text,
    p_now timestamptz
) RETURNS TABLE (generation bigint, pod_uid text, pod_name text, job_id bigint, account_id bigint, pool text,
                 state text, requeued boolean) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    ending bigint[];
BEGIN
    SELECT array_agg(c.generation) INTO ending FROM (
        SELECT claims.generation FROM claims WHERE claims.generation = ANY (p_generations) AND claims.state <> 'fenced'
        ORDER BY claims.pod_uid FOR UPDATE
    ) c;
    IF ending IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM jobs j WHERE j.generation = ANY (ending)
        AND j.job_id IN (SELECT c.job_id FROM claims c WHERE c.generation = ANY (ending)) ORDER BY j.job_id FOR UPDATE;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM claims c WHERE c.generation = ANY (ending) RETURNING c.*
    ), back AS (
        UPDATE jobs SET status = 'queued', conclusion = NULL, generation = NULL, pod_uid = NULL, pod_name = NULL,
            runner_name = NULL, claimed_at = NULL, started_at = NULL, not_before = p_not_before,
            mint_failures = jobs.mint_failures + CASE WHEN p_failed THEN 1 ELSE 0 END,
            changed_at = p_now, changed_by = p_by, changed_why = p_why
        FROM gone
        WHERE jobs.job_id = gone.job_id AND jobs.generation = gone.generation AND jobs.status IN ('claimed', 'running')
          AND (p_requeue = 'live' OR (p_requeue = 'unminted' AND gone.state = 'claimed'))
        RETURNING jobs.job_id
    ), logged AS (
        INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
        SELECT p_now, 'claim', g.job_id, g.account_id, g.pod_uid, g.generation, g.state, 'released', p_by, p_why FROM gone g
    )
    SELECT g.generation, g.pod_uid, g.pod_name, g.job_id, g.account_id, g.pool, g.state, back.job_id IS NOT NULL
    FROM gone g LEFT JOIN back ON back.job_id = g.job_id;
END $$;
