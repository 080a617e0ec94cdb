-- Tenants: who may run jobs, which repositories, how much each of them; and whose turn it is.
--
-- Accounts and repositories are known by GitHub's numbers. Names are kept beside them for people and decide nothing.

-- 0 is a job that the release before announced, which did not keep the number.
ALTER TABLE jobs ADD COLUMN repository_id bigint NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN repository_id bigint NOT NULL DEFAULT 0;

-- Who may run jobs: an account (repository_id 0), or one repository, whose line counts more than its account's.
-- Whoever has no line may not. No reference to accounts: one may be named before it was ever heard of.
CREATE TABLE allow_list (
    account_id    bigint NOT NULL CHECK (account_id > 0),
    repository_id bigint NOT NULL DEFAULT 0 CHECK (repository_id >= 0),
    allowed       boolean NOT NULL,
    name          text NOT NULL CHECK (name <> ''),
    changed_at    timestamptz NOT NULL,
    changed_by    text NOT NULL,
    changed_why   text NOT NULL,
    PRIMARY KEY (account_id, repository_id)
);

-- What a repository may hold at once on one platform, within what its account may. Without a line, as much as its account.
CREATE TABLE repository_limits (
    account_id    bigint NOT NULL CHECK (account_id > 0),
    repository_id bigint NOT NULL CHECK (repository_id > 0),
    platform      text NOT NULL CHECK (platform IN ('linux', 'macos')),
    name          text NOT NULL CHECK (name <> ''),
    vcpus         integer NOT NULL CHECK (vcpus > 0),
    memory_mb     integer NOT NULL CHECK (memory_mb > 0),
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (account_id, repository_id, platform)
);

-- What a name in the settings was first found to mean. Once bound it means that for good: a login that is given up and
-- taken by somebody else does not bring the settings along, and one that is changed does not lose them.
CREATE TABLE settings_names (
    name          text PRIMARY KEY CHECK (name = lower(name) AND name <> ''),
    account_id    bigint NOT NULL CHECK (account_id > 0),
    repository_id bigint NOT NULL DEFAULT 0,
    bound_at      timestamptz NOT NULL
);

-- Who changed the list or a limit, when, from what to what. For good, and never changed.
CREATE TABLE account_changes (
    change_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL,
    account_id    bigint NOT NULL,
    repository_id bigint NOT NULL DEFAULT 0,
    name          text NOT NULL,
    subject       text NOT NULL CHECK (subject IN ('list', 'limit')),
    was           text NOT NULL,
    became        text NOT NULL,
    by            text NOT NULL,
    why           text NOT NULL
);
CREATE INDEX account_changes_of ON account_changes (account_id, change_id);
CREATE FUNCTION refuse_to_forget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON account_changes
    FOR EACH ROW EXECUTE FUNCTION refuse_to_forget();

-- An upgrade loses no job: whoever has jobs here already stays allowed, by name of the upgrade, and can be denied. An account
-- that only installed the App, and never had a job, is not.
INSERT INTO allow_list (account_id, allowed, name, changed_at, changed_by, changed_why)
SELECT a.account_id, true, a.login, a.enrolled_at, 'upgrade', 'it had jobs before there was a list'
FROM accounts a WHERE EXISTS (SELECT FROM jobs j WHERE j.account_id = a.account_id)
                   OR EXISTS (SELECT FROM sessions s WHERE s.account_id = a.account_id);
INSERT INTO account_changes (at, account_id, name, subject, was, became, by, why)
SELECT changed_at, account_id, name, 'list', '', 'allowed', changed_by, changed_why FROM allow_list;

-- When each account was served last in a pool, as a number that only grows: clocks of two processes may differ.
CREATE SEQUENCE turn_numbers;
CREATE TABLE turns (
    pool       text NOT NULL,
    account_id bigint NOT NULL,
    platform   text NOT NULL,
    latest     bigint NOT NULL,
    PRIMARY KEY (pool, account_id, platform)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

-- A claim counts for the repository of the job behind it, whichever job GitHub gave its runner.
CREATE FUNCTION repository_of_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.repository_id := coalesce((SELECT j.repository_id FROM jobs j WHERE j.job_id = NEW.job_id), NEW.repository_id);
    RETURN NEW;
END $$;
CREATE TRIGGER repository_follows_job BEFORE UPDATE OF job_id ON claims FOR EACH ROW
    WHEN (NEW.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id) EXECUTE FUNCTION repository_of_claim();
CREATE INDEX claims_of_repository ON claims (account_id, repository_id, platform) WHERE repository_id <> 0;

-- Whether jobs of the repository may run: its own line, else its account's, else no. Only a job without a number (of the
-- release before) is looked up by its name, and within its account.
CREATE FUNCTION is_allowed(p_account_id bigint, p_repository_id bigint, p_repository text)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT e.allowed FROM allow_list e
         WHERE e.account_id = p_account_id AND e.repository_id <> 0
           AND (e.repository_id = p_repository_id OR (p_repository_id = 0 AND lower(e.name) = lower(p_repository)))
         ORDER BY e.allowed LIMIT 1),
        (SELECT e.allowed FROM allow_list e WHERE e.account_id = p_account_id AND e.repository_id = 0),
        false)
$$;

-- What a repository may still hold on a platform; no row for one that has no limit of its own.
CREATE FUNCTION repository_room(p_account_id bigint, p_repository_id bigint, p_platform text)
RETURNS TABLE (vcpus bigint, memory_mb bigint) LANGUAGE sql STABLE AS $$
    SELECT r.vcpus - coalesce(held.vcpus, 0), r.memory_mb - coalesce(held.memory_mb, 0)
    FROM repository_limits r CROSS JOIN LATERAL (
        SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
        WHERE c.account_id = r.account_id AND c.repository_id = r.repository_id AND c.platform = r.platform
          AND c.limit_id IS NOT NULL AND c.repository_id <> 0
    ) held
    WHERE r.account_id = p_account_id AND r.repository_id = p_repository_id AND r.platform = p_platform
$$;

-- As before (0003), and: what is not on the list is not admitted; a repository is counted under its account's turnstile,
-- which all of its admissions pass; whoever is served takes a turn. What the release before does not know as an answer is
-- told as a lost race, after which it asks again and is ranked anew.
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

        -- A turn each, in the order of the pairs. Nobody waits here: these rows are written under the account's turnstile.
        INSERT INTO turns (pool, account_id, platform, latest)
        SELECT DISTINCT ON (served.pool, served.account_id, served.platform)
               served.pool, served.account_id, served.platform, served.number
        FROM (
            SELECT c.pool, c.account_id, c.platform, nextval('turn_numbers') AS number
            FROM (SELECT c.pool, c.account_id, c.platform FROM claims c
                  JOIN unnest(p_pod_uids) WITH ORDINALITY AS pair (pod_uid, place) USING (pod_uid)
                  WHERE c.generation = ANY (won) ORDER BY pair.place) c
        ) served
        ORDER BY served.pool, served.account_id, served.platform, served.number DESC
        ON CONFLICT (pool, account_id, platform) DO UPDATE SET latest = excluded.latest;
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
-- larger of its two shares, vCPU and memory), counting the jobs ranked before in this very answer. Of equals, the one that
-- was served longest ago in this pool, and a place in this very answer counts as being served; then by age, then by number.
-- So an account that holds nothing is passed over at most once by each other account, whatever the size of the pool.
-- Left out: what is not on the list, jobs and accounts that back off, jobs older than a week, what does not fit into its
-- account's limit or its repository's, and limits in p_not.
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
        SELECT hop.account_id, hop.platform, l.vcpus, l.memory_mb,
               coalesce(used.vcpus, 0) AS used_vcpus, coalesce(used.memory_mb, 0) AS used_memory,
               coalesce(resting.repositories, '{}') AS resting, listed.single, capped.capped, t.latest
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
            SELECT EXISTS (SELECT FROM repository_limits r
                           WHERE r.account_id = hop.account_id AND r.platform = hop.platform) AS capped
        ) capped
        WHERE l.limit_id <> ALL (p_not) AND '' <> ALL (coalesce(resting.repositories, '{}')) AND listed.any_allowed
    ), first_in_line AS (
        -- An account whose first job comes after p_count others' has none among the first p_count.
        SELECT w.*, row_number() OVER (ORDER BY w.latest NULLS FIRST, head.enqueued_at, head.job_id) AS standing
        FROM waiting w CROSS JOIN LATERAL (
            SELECT j.enqueued_at, j.job_id FROM jobs j
            WHERE j.status = 'queued' AND j.pool = p_pool AND j.account_id = w.account_id AND j.platform = w.platform
              AND j.enqueued_at > p_now - interval '7 days'
              AND (j.not_before IS NULL OR j.not_before <= p_now) AND j.repository <> ALL (w.resting)
              AND w.used_vcpus + j.vcpus <= w.vcpus AND w.used_memory + j.memory_mb <= w.memory_mb
              AND (NOT w.single OR is_allowed(j.account_id, j.repository_id, j.repository))
              AND (NOT w.capped OR NOT EXISTS (
                      SELECT FROM repository_room(j.account_id, j.repository_id, j.platform) room
                      WHERE room.vcpus < j.vcpus OR room.memory_mb < j.memory_mb))
            ORDER BY j.enqueued_at, j.job_id LIMIT 1
        ) head
        ORDER BY greatest(w.used_vcpus::float8 / w.vcpus, w.used_memory::float8 / w.memory_mb), standing
        LIMIT p_count
    ), by_repository AS (
        SELECT w.*, job.job_id, job.enqueued_at, job.vcpus AS own_vcpus, job.memory_mb AS own_memory,
               room.vcpus AS room_vcpus, room.memory_mb AS room_memory,
               sum(job.vcpus) OVER in_repository AS its_vcpus, sum(job.memory_mb) OVER in_repository AS its_memory
        FROM first_in_line w CROSS JOIN LATERAL (
            SELECT j.job_id, j.enqueued_at, j.vcpus, j.memory_mb, j.repository_id FROM jobs j
            WHERE j.status = 'queued' AND j.pool = p_pool AND j.account_id = w.account_id AND j.platform = w.platform
              AND j.enqueued_at > p_now - interval '7 days'
              AND (j.not_before IS NULL OR j.not_before <= p_now) AND j.repository <> ALL (w.resting)
              -- One that can never fit beside what runs must not hold up the smaller ones behind it.
              AND w.used_vcpus + j.vcpus <= w.vcpus AND w.used_memory + j.memory_mb <= w.memory_mb
              AND (NOT w.single OR is_allowed(j.account_id, j.repository_id, j.repository))
              AND (NOT w.capped OR NOT EXISTS (
                      SELECT FROM repository_room(j.account_id, j.repository_id, j.platform) room
                      WHERE room.vcpus < j.vcpus OR room.memory_mb < j.memory_mb))
            ORDER BY j.enqueued_at, j.job_id
            LIMIT least(p_count, greatest(w.vcpus - w.used_vcpus, 0))
        ) job
        LEFT JOIN LATERAL repository_room(w.account_id, job.repository_id, w.platform) room ON w.capped
        WINDOW in_repository AS (PARTITION BY w.account_id, w.platform, job.repository_id
                                 ORDER BY job.enqueued_at, job.job_id ROWS UNBOUNDED PRECEDING)
    ), candidates AS (
        SELECT b.job_id, b.vcpus, b.memory_mb, b.standing, b.own_vcpus, b.own_memory,
               b.used_vcpus + sum(b.own_vcpus) OVER in_line AS vcpus_after,
               b.used_memory + sum(b.own_memory) OVER in_line AS memory_after,
               row_number() OVER in_line AS nth
        FROM by_repository b
        -- Behind a repository that is full the rest of its account goes on.
        WHERE b.room_vcpus IS NULL OR (b.its_vcpus <= b.room_vcpus AND b.its_memory <= b.room_memory)
        WINDOW in_line AS (PARTITION BY b.account_id, b.platform ORDER BY b.enqueued_at, b.job_id
                           ROWS UNBOUNDED PRECEDING)
    ), ranked AS (
        SELECT c.job_id, row_number() OVER (
                   ORDER BY greatest((c.vcpus_after - c.own_vcpus)::float8 / c.vcpus,
                                     (c.memory_after - c.own_memory)::float8 / c.memory_mb), c.nth > 1, c.standing, c.nth
               ) AS place
        FROM candidates c WHERE c.vcpus_after <= c.vcpus AND c.memory_after <= c.memory_mb
    )
    SELECT array_agg(ranked.job_id ORDER BY ranked.place) FROM ranked WHERE ranked.place <= p_count
);
END $$;
