-- Who holds which Pod and which job, right now; and which Pod was ever handed a runner.

-- Processes that dispatch. A claim names its dispatcher, so that the claims of one that died can be told from slow ones.
CREATE TABLE dispatchers (
    dispatcher_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text NOT NULL,
    started_at    timestamptz NOT NULL,
    seen_at       timestamptz NOT NULL
);

-- Never reused, never going back: a claim's generation is its name for ever.
CREATE SEQUENCE generations;

-- One row a held Pod. A claim reserves the Pod and the account's capacity; a fence is the reaper's hold on a Pod, under
-- the same key, so that a Pod has either one claim or one fence or nothing, and never two of them.
CREATE TABLE claims (
    pod_uid         text PRIMARY KEY CHECK (pod_uid <> ''),
    pod_name        text NOT NULL CHECK (pod_name <> ''),
    generation      bigint NOT NULL UNIQUE DEFAULT nextval('generations'),
    state           text NOT NULL CHECK (state IN ('claimed', 'running', 'fenced')),
    -- The job this Pod serves as far as we know; NULL once GitHub gave it to another runner.
    job_id          bigint UNIQUE,
    account_id      bigint,
    pool            text,
    platform        text,
    vcpus           integer NOT NULL DEFAULT 0,
    memory_mb       integer NOT NULL DEFAULT 0,
    limit_id        bigint,
    runner_name     text,
    dispatcher_id   bigint,
    claimed_at      timestamptz NOT NULL,
    -- When GitHub proved that this runner executes `job_id`; NULL means idle, or not heard yet.
    executing_since timestamptz,
    missing_since   timestamptz,
    by              text NOT NULL,
    why             text NOT NULL,
    CONSTRAINT a_fence_reserves_nothing CHECK (state <> 'fenced' OR (job_id IS NULL AND limit_id IS NULL)),
    CONSTRAINT a_claim_counts CHECK (state = 'fenced' OR (account_id IS NOT NULL AND pool IS NOT NULL
        AND platform IS NOT NULL AND limit_id IS NOT NULL AND vcpus > 0 AND memory_mb > 0)),
    CONSTRAINT a_running_claim_is_minted CHECK (state <> 'running' OR runner_name IS NOT NULL),
    CONSTRAINT an_unminted_claim_has_no_runner CHECK (state <> 'claimed' OR runner_name IS NULL)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
-- No foreign keys from here: they would lock the account's and the limit's rows in ways that admission must not wait for.
CREATE INDEX claims_usage ON claims (limit_id) INCLUDE (vcpus, memory_mb, generation) WHERE limit_id IS NOT NULL;
CREATE INDEX claims_of_runner ON claims (account_id, runner_name) WHERE runner_name IS NOT NULL;
CREATE INDEX claims_of_pool ON claims (pool) WHERE pool IS NOT NULL;
CREATE INDEX claims_unminted ON claims (claimed_at) WHERE state = 'claimed';
CREATE INDEX claims_missing ON claims (missing_since) WHERE missing_since IS NOT NULL;

-- One row a Pod that was handed a runner, for good. The primary key is the promise that no Pod ever serves two tenants.
CREATE TABLE sessions (
    pod_uid         text PRIMARY KEY,
    pod_name        text NOT NULL,
    generation      bigint NOT NULL UNIQUE,
    account_id      bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    job_id          bigint,
    executed_job_id bigint,
    pool            text NOT NULL,
    platform        text NOT NULL,
    vcpus           integer NOT NULL,
    memory_mb       integer NOT NULL,
    runner_name     text NOT NULL,
    repository      text NOT NULL,
    workflow_name   text NOT NULL,
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    end_reason      text,
    job_started_at  timestamptz,
    job_ended_at    timestamptz
);
CREATE INDEX sessions_of_runner ON sessions (account_id, runner_name);
CREATE INDEX sessions_of_job ON sessions (job_id);
CREATE INDEX sessions_open ON sessions (pool, started_at) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_age ON sessions (pool, started_at);
