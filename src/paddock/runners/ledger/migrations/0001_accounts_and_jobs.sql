-- Who may run jobs, how much at once, and the life of every job.
-- Every moment in these tables is passed in from the program's clock; nothing here asks the server for the time.

CREATE TABLE accounts (
    account_id      bigint PRIMARY KEY CHECK (account_id > 0),
    login           text NOT NULL CHECK (login <> ''),
    installation_id bigint UNIQUE,
    enrolled_at     timestamptz NOT NULL
);

-- What an account may hold at once on one platform. Admission locks this row, so it is also the account's turnstile.
CREATE TABLE limits (
    limit_id   bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    account_id bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    platform   text NOT NULL CHECK (platform IN ('linux', 'macos')),
    vcpus      integer NOT NULL CHECK (vcpus > 0),
    memory_mb  integer NOT NULL CHECK (memory_mb > 0),
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, platform)
);

-- One row a workflow job, for good. `generation` names the claim that holds the job, or that held it last while it ran.
CREATE TABLE jobs (
    job_id          bigint PRIMARY KEY CHECK (job_id > 0),
    account_id      bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    pool            text NOT NULL CHECK (pool <> ''),
    platform        text NOT NULL CHECK (platform IN ('linux', 'macos')),
    vcpus           integer NOT NULL CHECK (vcpus > 0),
    memory_mb       integer NOT NULL CHECK (memory_mb > 0),
    status          text NOT NULL CHECK (status IN ('queued', 'claimed', 'running', 'completed', 'cancelled')),
    conclusion      text,
    repository      text NOT NULL,
    workflow_run_id bigint NOT NULL DEFAULT 0,
    workflow_name   text NOT NULL DEFAULT '',
    run_attempt     integer NOT NULL DEFAULT 1,
    job_name        text NOT NULL DEFAULT '',
    head_branch     text NOT NULL DEFAULT '',
    head_sha        text NOT NULL DEFAULT '',
    label           text NOT NULL DEFAULT '',
    enqueued_at     timestamptz NOT NULL,
    claimed_at      timestamptz,
    started_at      timestamptz,
    completed_at    timestamptz,
    generation      bigint,
    pod_uid         text,
    pod_name        text,
    runner_name     text,
    mint_failures   integer NOT NULL DEFAULT 0,
    not_before      timestamptz,
    changed_at      timestamptz NOT NULL,
    changed_by      text NOT NULL,
    changed_why     text NOT NULL,
    -- A waiting job is nobody's; a claimed one is somebody's; a finished one says how it ended.
    CONSTRAINT a_queued_job_is_unbound CHECK (status <> 'queued' OR (generation IS NULL AND pod_uid IS NULL)),
    CONSTRAINT a_claimed_job_is_bound CHECK (status <> 'claimed' OR (generation IS NOT NULL AND pod_uid IS NOT NULL)),
    CONSTRAINT a_finished_job_says_how CHECK (status NOT IN ('completed', 'cancelled') OR conclusion IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

-- The queue: each account's waiting jobs of a pool lie together, oldest first, so the accounts that wait can be found by
-- hopping from one to the next however long the line of any of them is.
CREATE INDEX jobs_queue ON jobs (pool, account_id, platform, enqueued_at, job_id) WHERE status = 'queued';
CREATE INDEX jobs_queued_since ON jobs (enqueued_at) WHERE status = 'queued';
CREATE INDEX jobs_running_since ON jobs (started_at) WHERE status = 'running';
CREATE INDEX jobs_running_on ON jobs (pod_uid) WHERE status = 'running';

-- The tombstone of a job, kept even where the job itself was never announced: what is in here is never queued again.
CREATE TABLE completions (
    job_id       bigint PRIMARY KEY CHECK (job_id > 0),
    account_id   bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    conclusion   text NOT NULL,
    runner_name  text,
    completed_at timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL
);
CREATE INDEX completions_by_age ON completions (completed_at);

-- Whom to leave alone for a while because minting keeps failing: a whole account (repository '') or one repository.
CREATE TABLE setbacks (
    account_id bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    repository text NOT NULL DEFAULT '',
    failures   integer NOT NULL CHECK (failures > 0),
    not_before timestamptz NOT NULL,
    why        text NOT NULL,
    PRIMARY KEY (account_id, repository)
);

-- What GitHub sent, once each: stored before it is answered, worked off afterwards.
CREATE TABLE deliveries (
    delivery_id text PRIMARY KEY CHECK (delivery_id <> ''),
    event       text NOT NULL,
    payload     bytea,
    received_at timestamptz NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    due_at      timestamptz,
    settled_at  timestamptz,
    outcome     text,
    -- A settled delivery keeps its id and drops its body: the id is what a repeat is known by.
    CONSTRAINT due_or_settled CHECK ((due_at IS NULL) = (settled_at IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE settled_at IS NULL;
CREATE INDEX deliveries_by_age ON deliveries (received_at);

-- Who changed what, when, from what to what, why, and under which claim. Nothing in here is ever changed.
CREATE TABLE transitions (
    transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL,
    subject       text NOT NULL CHECK (subject IN ('job', 'claim', 'fence', 'session', 'limit')),
    job_id        bigint,
    account_id    bigint,
    pod_uid       text,
    generation    bigint,
    was           text NOT NULL,
    became        text NOT NULL,
    by            text NOT NULL,
    why           text NOT NULL
);
CREATE INDEX transitions_of_job ON transitions (job_id, transition_id) WHERE job_id IS NOT NULL;
CREATE INDEX transitions_of_pod ON transitions (pod_uid, transition_id) WHERE pod_uid IS NOT NULL;
CREATE INDEX transitions_by_age ON transitions (at);

-- Only forgetting by age may remove lines, and it has to say so (`SET LOCAL paddock.forgetting = 'on'`).
CREATE FUNCTION refuse_to_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('paddock.forgetting', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'transitions is append-only: % is refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON transitions
    FOR EACH ROW EXECUTE FUNCTION refuse_to_rewrite();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON transitions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite();

-- A job cannot move without leaving a line, whoever moves it and from wherever.
CREATE FUNCTION log_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    VALUES (NEW.changed_at, 'job', NEW.job_id, NEW.account_id,
            coalesce(NEW.pod_uid, CASE WHEN TG_OP = 'UPDATE' THEN OLD.pod_uid END),
            coalesce(NEW.generation, CASE WHEN TG_OP = 'UPDATE' THEN OLD.generation END),
            CASE WHEN TG_OP = 'UPDATE' THEN OLD.status ELSE '' END, NEW.status, NEW.changed_by, NEW.changed_why);
    RETURN NULL;
END $$;
CREATE TRIGGER log_new_job AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION log_job();
CREATE TRIGGER log_moved_job AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.generation IS DISTINCT FROM NEW.generation)
    EXECUTE FUNCTION log_job();

-- A finished job stays finished: the last line of defence behind every guard in the statements.
CREATE FUNCTION refuse_resurrection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is % and cannot become %', OLD.job_id, OLD.status, NEW.status
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER finished_is_finished BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'cancelled') AND NEW.status IS DISTINCT FROM OLD.status)
    EXECUTE FUNCTION refuse_resurrection();

-- The one lock that orders what is said about a job: whoever hears from GitHub about it waits here, holding nothing yet.
CREATE FUNCTION job_lock_key(p_job_id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT hashint8extended(p_job_id, 6975330) $$;
