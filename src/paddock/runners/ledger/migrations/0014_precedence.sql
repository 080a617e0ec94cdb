-- Who goes before whom: weights and priorities of accounts and repositories.
--
-- Without a line here nothing changes: everybody has weight 1 and priority 0.

-- Of an account (repository_id 0), or of one repository. A weight or a priority that is NULL is not said: a weight is then 1,
-- and a repository's priority its account's. No reference to accounts: one may be named before it was ever heard of.
CREATE TABLE precedence (
    account_id    bigint NOT NULL CHECK (account_id > 0),
    repository_id bigint NOT NULL DEFAULT 0 CHECK (repository_id >= 0),
    weight        integer CHECK (weight BETWEEN 1 AND 100),
    priority      integer CHECK (priority BETWEEN -10 AND 10),
    name          text NOT NULL CHECK (name <> ''),
    changed_at    timestamptz NOT NULL,
    changed_by    text NOT NULL,
    changed_why   text NOT NULL,
    PRIMARY KEY (account_id, repository_id),
    CHECK (weight IS NOT NULL OR priority IS NOT NULL)
);

ALTER TABLE account_changes DROP CONSTRAINT account_changes_subject_check;
ALTER TABLE account_changes ADD CONSTRAINT account_changes_subject_check
    CHECK (subject IN ('list', 'limit', 'precedence'));

-- How many of its turns an account has taken since it last went to the back: it has as many as its weight.
ALTER TABLE turns ADD COLUMN taken integer NOT NULL DEFAULT 0;

-- The priority that counts now: one step more for each three minutes that the job has waited, up to the highest priority of
-- those that wait. So priorities alone delay no job for more than an hour, and where all have the same one, age adds nothing.
CREATE FUNCTION level_of(p_priority integer, p_since timestamptz, p_now timestamptz, p_top integer)
RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_priority >= p_top THEN p_top
                ELSE least(p_top, p_priority + greatest(0, floor(date_part('epoch', p_now - p_since) / 180))::integer) END
$$;

-- A share as it counts for an account of that weight: a part of it, in whole jobs of the size of its next one. Whole, because an
-- account of weight 3 that holds one job or two has not used up its part, and in a pool of two it would never get more than one.
CREATE FUNCTION counted_share(p_share float8, p_weight integer, p_one_job float8)
RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_weight = 1 THEN p_share
                ELSE floor(p_share / (p_weight * p_one_job) + 1e-9) * p_one_job END
$$;

-- Jobs of an account that may run now beside what it holds: on the list, young enough, not resting, within what is free of its
-- limit and of its repository's. Left out: one that can never fit beside what runs must not hold up the smaller ones behind it.
-- One plain SELECT, so that it is planned as a part of the statement that asks, with that one's order and LIMIT.
CREATE FUNCTION eligible_jobs(
    p_pool text, p_account_id bigint, p_platform text, p_now timestamptz, p_resting text[], p_single boolean, p_capped boolean,
    p_vcpus bigint, p_memory_mb bigint
) RETURNS TABLE (job_id bigint, enqueued_at timestamptz, vcpus integer, memory_mb integer, repository_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT j.job_id, j.enqueued_at, j.vcpus, j.memory_mb, j.repository_id FROM jobs j
    WHERE j.status = 'queued' AND j.pool = p_pool AND j.account_id = p_account_id AND j.platform = p_platform
      AND j.enqueued_at > p_now - interval '7 days'
      AND (j.not_before IS NULL OR j.not_before <= p_now) AND j.repository <> ALL (p_resting)
      AND j.vcpus <= p_vcpus AND j.memory_mb <= p_memory_mb
      AND (NOT p_single OR is_allowed(j.account_id, j.repository_id, j.repository))
      AND (NOT p_capped OR NOT EXISTS (
              SELECT FROM repository_room(j.account_id, j.repository_id, j.platform) room
              WHERE room.vcpus < j.vcpus OR room.memory_mb < j.memory_mb))
$$;

-- The line of an account of which repositories have a precedence of their own, in its order: the priority that counts now;
-- then, where a repository has a weight, the smallest share that a repository holds, by its weight, counting its jobs before
-- in this line; then age. It reads the account's whole line in the pool, and is asked for such accounts alone. In a
-- language of its own, so that the statement that asks stays small: setting up what is seldom run would cost every claim.
CREATE FUNCTION weighed_line(
    p_pool text, p_account_id bigint, p_platform text, p_now timestamptz, p_resting text[], p_single boolean, p_capped boolean,
    p_vcpus bigint, p_memory_mb bigint, p_limit_id bigint, p_limit_vcpus integer, p_limit_memory integer, p_priority integer,
    p_top integer
) RETURNS TABLE (job_id bigint, enqueued_at timestamptz, vcpus integer, memory_mb integer, repository_id bigint,
                 priority integer, place bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
    WITH line AS (
        SELECT e.job_id, e.enqueued_at, e.vcpus, e.memory_mb, e.repository_id, coalesce(own.weight, 1) AS weight,
               coalesce(own.priority, p_priority) AS priority
        FROM eligible_jobs(p_pool, p_account_id, p_platform, p_now, p_resting, p_single, p_capped, p_vcpus, p_memory_mb) e
        LEFT JOIN precedence own
               ON own.account_id = p_account_id AND own.repository_id = e.repository_id AND own.repository_id <> 0
    ), held AS (
        SELECT c.repository_id, sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
        WHERE c.limit_id = p_limit_id GROUP BY c.repository_id
    ), counted AS (
        SELECT line.job_id, line.enqueued_at, line.vcpus, line.memory_mb, line.repository_id, line.priority,
               greatest((coalesce(held.vcpus, 0) + sum(line.vcpus) OVER earlier - line.vcpus)::float8 / p_limit_vcpus,
                        (coalesce(held.memory_mb, 0) + sum(line.memory_mb) OVER earlier - line.memory_mb)::float8
                            / p_limit_memory) / line.weight AS share
        FROM line LEFT JOIN held USING (repository_id)
        WINDOW earlier AS (PARTITION BY line.repository_id ORDER BY line.enqueued_at, line.job_id ROWS UNBOUNDED PRECEDING)
    ), weighed AS (
        SELECT EXISTS (SELECT FROM precedence p WHERE p.account_id = p_account_id AND p.repository_id <> 0
                                                  AND p.weight IS NOT NULL) AS any_weight
    )
    SELECT c.job_id, c.enqueued_at, c.vcpus, c.memory_mb, c.repository_id, c.priority, row_number() OVER (
               ORDER BY level_of(c.priority, c.enqueued_at, p_now, p_top) DESC,
                        CASE WHEN weighed.any_weight THEN c.share ELSE 0 END, c.enqueued_at, c.job_id)
    FROM counted c CROSS JOIN weighed;
END $$;

-- As before (0008), and: an account takes as many turns as its weight before it goes to the back.
CREATE OR REPLACE FUNCTION admit(
    p_jobs bigint[], p_pod_uids text[], p_pod_names text[], p_dispatcher bigint, p_by text, p_now timestamptz
) RETURNS SETOF admitted LANGUAGE plpgsql AS $$
DECLARE
    mine   bigint[];  -- generations that this call inserted
    turn   bigint[];  -- limits whose turnstile this call holds
    fit    bigint[];  -- generations within their limits
    won    bigint[];  -- generations whose job was still waiting
    full_  text[];    -- Pods whose pair was over the account's limit
    busy   text[];    -- Pods whose account's turnstile was taken
    spent  text[];    -- Pods that were handed a runner before
BEGIN
    -- The Pod and the job are taken first. Waiting for a rival for the same Pod happens here, where the account is not
    -- locked yet and so nobody else of the account has to wait with us.
    WITH taken AS (
        INSERT INTO claims (pod_uid, pod_name, state, job_id, account_id, pool, platform, vcpus, memory_mb, limit_id,
                            dispatcher_id, claimed_at, by, why, repository_id)
        SELECT pair.pod_uid, pair.pod_name, 'claimed', job.job_id, job.account_id, job.pool, job.platform, job.vcpus,
               job.memory_mb, allowed.limit_id, p_dispatcher, p_now, p_by, 'waiting Pod takes the job', job.repository_id
        FROM unnest(p_jobs, p_pod_uids, p_pod_names) AS pair (job_id, pod_uid, pod_name)
        JOIN jobs job ON job.job_id = pair.job_id AND job.status = 'queued'
        JOIN limits allowed ON allowed.account_id = job.account_id AND allowed.platform = job.platform
        WHERE is_allowed(job.account_id, job.repository_id, job.repository)
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
        ), of_repository AS (
            SELECT c.limit_id, c.repository_id, sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
            WHERE c.limit_id = ANY (turn) AND c.generation <> ALL (mine) GROUP BY c.limit_id, c.repository_id
        ), ours AS (
            SELECT c.generation, c.pod_uid, c.limit_id, c.account_id, c.repository_id, c.platform,
                   sum(c.vcpus) OVER in_order AS vcpus, sum(c.memory_mb) OVER in_order AS memory_mb,
                   sum(c.vcpus) OVER in_repository AS its_vcpus, sum(c.memory_mb) OVER in_repository AS its_memory
            FROM claims c JOIN unnest(p_pod_uids) WITH ORDINALITY AS pair (pod_uid, place) USING (pod_uid)
            WHERE c.generation = ANY (mine)
            WINDOW in_order AS (PARTITION BY c.limit_id ORDER BY pair.place ROWS UNBOUNDED PRECEDING),
                   in_repository AS (PARTITION BY c.limit_id, c.repository_id ORDER BY pair.place ROWS UNBOUNDED PRECEDING)
        ), judged AS (
            SELECT ours.generation, ours.pod_uid, l.limit_id = ANY (turn) AS our_turn,
                   ours.vcpus + coalesce(others.vcpus, 0) <= l.vcpus
                   AND ours.memory_mb + coalesce(others.memory_mb, 0) <= l.memory_mb AS fits,
                   r.vcpus IS NULL OR (ours.its_vcpus + coalesce(o.vcpus, 0) <= r.vcpus
                                       AND ours.its_memory + coalesce(o.memory_mb, 0) <= r.memory_mb) AS repository_fits,
                   EXISTS (SELECT FROM sessions s WHERE s.pod_uid = ours.pod_uid) AS spent
            FROM ours JOIN limits l USING (limit_id) LEFT JOIN others USING (limit_id)
            LEFT JOIN repository_limits r ON r.account_id = ours.account_id AND r.repository_id = ours.repository_id
                                         AND r.platform = ours.platform
            LEFT JOIN of_repository o ON o.limit_id = ours.limit_id AND o.repository_id = ours.repository_id
        )
        SELECT array_agg(j.generation) FILTER (WHERE j.our_turn AND j.fits AND j.repository_fits AND NOT j.spent),
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

        -- A turn each, in the order of the pairs. An account goes to the back with the turn that uses its weight up, and keeps
        -- its place until then. Nobody waits here, and what is read stays true: these rows are written under the account's
        -- turnstile.
        INSERT INTO turns (pool, account_id, platform, latest, taken)
        SELECT s.pool, s.account_id, s.platform,
               coalesce(s.numbers[s.served - (coalesce(t.taken, 0) + s.served) % coalesce(p.weight, 1)], t.latest, 0),
               (coalesce(t.taken, 0) + s.served) % coalesce(p.weight, 1)
        FROM (
            SELECT c.pool, c.account_id, c.platform, array_agg(c.number ORDER BY c.number) AS numbers, count(*)::integer AS served
            FROM (SELECT c.pool, c.account_id, c.platform, nextval('turn_numbers') AS number
                  FROM (SELECT c.pool, c.account_id, c.platform FROM claims c
                        JOIN unnest(p_pod_uids) WITH ORDINALITY AS pair (pod_uid, place) USING (pod_uid)
                        WHERE c.generation = ANY (won) ORDER BY pair.place) c) c
            GROUP BY c.pool, c.account_id, c.platform
        ) s
        LEFT JOIN turns t ON t.pool = s.pool AND t.account_id = s.account_id AND t.platform = s.platform
        LEFT JOIN precedence p ON p.account_id = s.account_id AND p.repository_id = 0
        ON CONFLICT (pool, account_id, platform) DO UPDATE SET latest = excluded.latest, taken = excluded.taken;
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

-- The ranking of 0008 under a name of its own, word for word: by share alone.
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('next_jobs'::regproc), 'next_jobs(', 'next_jobs_by_share(');
END $$;

-- The jobs to hand out next. First the highest priority, with what age adds to it (`level_of`). Of equals, the account that
-- holds the smallest share of its own limit goes first (the larger of its two shares, vCPU and memory), counting the jobs
-- ranked before in this very answer; one of weight n counts as holding an n-th of it, in whole jobs. Of equals, the one that
-- went to the back longest ago in this pool, and a place in this very answer counts as being served; then by age, then by
-- number. So an account that holds nothing is passed over by each other account of its level at most as often as that one's
-- weight says, whatever the size of the pool.
-- Left out: what is not on the list, jobs and accounts that back off, jobs older than a week, what does not fit into its
-- account's limit or its repository's, and limits in p_not.
CREATE FUNCTION next_jobs_by_precedence(p_pool text, p_count integer, p_now timestamptz, p_not bigint[])
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
        SELECT hop.account_id, hop.platform, l.limit_id, l.vcpus, l.memory_mb,
               coalesce(used.vcpus, 0) AS used_vcpus, coalesce(used.memory_mb, 0) AS used_memory,
               coalesce(resting.repositories, '{}') AS resting, listed.single, capped.capped, t.latest,
               said.weight, said.priority, said.by_repository, greatest(1, said.weight - coalesce(t.taken, 0)) AS turns_left
        FROM hop JOIN limits l ON l.account_id = hop.account_id AND l.platform = hop.platform
        LEFT JOIN turns t ON t.pool = p_pool AND t.account_id = hop.account_id AND t.platform = hop.platform
        CROSS JOIN LATERAL (
            SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c WHERE c.limit_id = l.limit_id
        ) used
        CROSS JOIN LATERAL (
            SELECT array_agg(s.repository) AS repositories FROM setbacks s
            WHERE s.account_id = hop.account_id AND s.not_before > p_now
        ) resting
        CROSS JOIN LATERAL (
            -- `single`: repositories of it have lines of their own, so that each job has to be looked up.
            SELECT coalesce(bool_or(e.allowed), false) AS any_allowed, coalesce(bool_or(e.repository_id <> 0), false) AS single
            FROM allow_list e WHERE e.account_id = hop.account_id
        ) listed
        CROSS JOIN LATERAL (
            -- An aggregate: a sub-select here would keep `eligible_jobs` from being planned as a part of this statement.
            SELECT count(*) > 0 AS capped FROM repository_limits r
            WHERE r.account_id = hop.account_id AND r.platform = hop.platform
        ) capped
        CROSS JOIN LATERAL (
            -- `by_repository`: repositories of it have a precedence of their own, so that its line has an order of its own.
            SELECT coalesce(max(p.weight) FILTER (WHERE p.repository_id = 0), 1) AS weight,
                   coalesce(max(p.priority) FILTER (WHERE p.repository_id = 0), 0) AS priority,
                   coalesce(bool_or(p.repository_id <> 0), false) AS by_repository
            FROM precedence p WHERE p.account_id = hop.account_id
        ) said
        WHERE l.limit_id <> ALL (p_not) AND '' <> ALL (coalesce(resting.repositories, '{}')) AND listed.any_allowed
    ), heads AS (
        SELECT w.*, head.enqueued_at AS oldest, own.priorities, own.since,
               greatest(head.vcpus::float8 / w.vcpus, head.memory_mb::float8 / w.memory_mb) AS one_job,
               row_number() OVER (ORDER BY w.latest NULLS FIRST, head.enqueued_at, head.job_id) AS standing,
               max(coalesce(own.priorities[1], w.priority)) OVER () AS top
        FROM waiting w CROSS JOIN LATERAL (
            SELECT e.enqueued_at, e.job_id, e.vcpus, e.memory_mb
            FROM eligible_jobs(p_pool, w.account_id, w.platform, p_now, w.resting, w.single, w.capped,
                               w.vcpus - w.used_vcpus, w.memory_mb - w.used_memory) e
            ORDER BY e.enqueued_at, e.job_id LIMIT 1
        ) head
        CROSS JOIN LATERAL (
            -- The oldest job of each priority, the highest first; nothing is read where repositories have none of their own.
            SELECT array_agg(p.priority ORDER BY p.priority DESC) AS priorities, array_agg(p.since ORDER BY p.priority DESC) AS since
            FROM (SELECT line.priority, min(line.enqueued_at) AS since
                  FROM weighed_line(p_pool, w.account_id, w.platform, p_now, w.resting, w.single, w.capped,
                                    w.vcpus - w.used_vcpus, w.memory_mb - w.used_memory, w.limit_id, w.vcpus, w.memory_mb,
                                    w.priority, 0) line
                  WHERE w.by_repository GROUP BY line.priority) p
        ) own
    ), first_in_line AS (
        -- An account whose first job comes after p_count others' has none among the first p_count.
        SELECT h.* FROM heads h
        ORDER BY CASE WHEN h.by_repository
                      THEN (SELECT max(level_of(one.priority, one.since, p_now, h.top))
                            FROM unnest(h.priorities, h.since) AS one (priority, since))
                      ELSE level_of(h.priority, h.oldest, p_now, h.top) END DESC,
                 counted_share(greatest(h.used_vcpus::float8 / h.vcpus, h.used_memory::float8 / h.memory_mb),
                               h.weight, h.one_job),
                 h.standing
        LIMIT p_count
    ), by_repository AS (
        SELECT w.*, job.job_id, job.enqueued_at, job.vcpus AS own_vcpus, job.memory_mb AS own_memory,
               job.priority AS own_priority, job.place,
               room.vcpus AS room_vcpus, room.memory_mb AS room_memory,
               sum(job.vcpus) OVER in_repository AS its_vcpus, sum(job.memory_mb) OVER in_repository AS its_memory
        FROM first_in_line w CROSS JOIN LATERAL (
            (SELECT e.job_id, e.enqueued_at, e.vcpus, e.memory_mb, e.repository_id, w.priority, 0 AS place
             FROM eligible_jobs(p_pool, w.account_id, w.platform, p_now, w.resting, w.single, w.capped,
                                w.vcpus - w.used_vcpus, w.memory_mb - w.used_memory) e
             WHERE NOT w.by_repository
             ORDER BY e.enqueued_at, e.job_id
             LIMIT least(p_count, greatest(w.vcpus - w.used_vcpus, 0)))
            UNION ALL
            (SELECT line.job_id, line.enqueued_at, line.vcpus, line.memory_mb, line.repository_id, line.priority, line.place
             FROM weighed_line(p_pool, w.account_id, w.platform, p_now, w.resting, w.single, w.capped,
                               w.vcpus - w.used_vcpus, w.memory_mb - w.used_memory, w.limit_id, w.vcpus, w.memory_mb,
                               w.priority, w.top) line
             WHERE w.by_repository
             ORDER BY line.place
             LIMIT least(p_count, greatest(w.vcpus - w.used_vcpus, 0)))
        ) job
        LEFT JOIN LATERAL repository_room(w.account_id, job.repository_id, w.platform) room ON w.capped
        WINDOW in_repository AS (PARTITION BY w.account_id, w.platform, job.repository_id
                                 ORDER BY job.place, job.enqueued_at, job.job_id ROWS UNBOUNDED PRECEDING)
    ), candidates AS (
        SELECT b.job_id, b.vcpus, b.memory_mb, b.standing, b.own_vcpus, b.own_memory, b.weight, b.one_job, b.turns_left,
               level_of(b.own_priority, b.enqueued_at, p_now, b.top) AS level,
               b.used_vcpus + sum(b.own_vcpus) OVER in_line AS vcpus_after,
               b.used_memory + sum(b.own_memory) OVER in_line AS memory_after,
               row_number() OVER in_line AS nth
        FROM by_repository b
        -- Behind a repository that is full the rest of its account goes on.
        WHERE b.room_vcpus IS NULL OR (b.its_vcpus <= b.room_vcpus AND b.its_memory <= b.room_memory)
        WINDOW in_line AS (PARTITION BY b.account_id, b.platform ORDER BY b.place, b.enqueued_at, b.job_id
                           ROWS UNBOUNDED PRECEDING)
    ), ranked AS (
        SELECT c.job_id, row_number() OVER (
                   ORDER BY c.level DESC,
                            counted_share(greatest((c.vcpus_after - c.own_vcpus)::float8 / c.vcpus,
                                                   (c.memory_after - c.own_memory)::float8 / c.memory_mb),
                                          c.weight, c.one_job),
                            c.nth > c.turns_left, c.standing, c.nth
               ) AS place
        FROM candidates c WHERE c.vcpus_after <= c.vcpus AND c.memory_after <= c.memory_mb
    )
    SELECT array_agg(ranked.job_id ORDER BY ranked.place) FROM ranked WHERE ranked.place <= p_count
);
END $$;

-- Where nobody has a precedence both rankings give the same, and the shorter one costs a quarter less.
CREATE OR REPLACE FUNCTION next_jobs(p_pool text, p_count integer, p_now timestamptz, p_not bigint[])
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT FROM precedence) THEN
        RETURN next_jobs_by_precedence(p_pool, p_count, p_now, p_not);
    END IF;
    RETURN next_jobs_by_share(p_pool, p_count, p_now, p_not);
END $$;
