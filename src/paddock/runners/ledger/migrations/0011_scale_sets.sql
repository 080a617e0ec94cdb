-- Scale sets: the second source of jobs. See docs/design/scale-sets.md.

-- Whose the sets are that this ledger made: its name is one of their labels, so that a set is known again without a row.
CREATE TABLE scale_set_owner (
    single_row boolean PRIMARY KEY DEFAULT true CHECK (single_row),
    owner      text NOT NULL CHECK (owner <> '')
);

-- One row a pool and account (and repository, of a personal account): who listens, and how it goes. The lease is
-- `dispatcher_id` for as long as that dispatcher beats; every write names the epoch.
CREATE TABLE scale_set_sources (
    source_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool          text NOT NULL CHECK (pool <> ''),
    account_id    bigint NOT NULL REFERENCES accounts,
    repository    text NOT NULL DEFAULT '',
    scale_set_id  bigint,
    session_id    text NOT NULL DEFAULT '',
    epoch         bigint NOT NULL DEFAULT 0,
    dispatcher_id bigint,
    state         text NOT NULL DEFAULT 'Starting'
                  CHECK (state IN ('Starting', 'Listening', 'Conflict', 'Lost', 'Refused', 'Stopped')),
    sentence      text NOT NULL DEFAULT '',
    since         timestamptz NOT NULL,
    heard_at      timestamptz,  -- when GitHub last answered a poll
    assigned      integer NOT NULL DEFAULT 0,
    running       integer NOT NULL DEFAULT 0,
    advertised    integer NOT NULL DEFAULT 0,
    UNIQUE (pool, account_id, repository)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

-- Jobs of scale sets have numbers of ours: GitHub does not tell its own before a job has started. They begin far above
-- GitHub's and below 2^53, up to which every JSON reader keeps the digits.
CREATE SEQUENCE scale_set_job_ids START 4503599627370496;

-- What GitHub said of each assignment. The row of `jobs` follows it; forgotten with that.
CREATE TABLE scale_set_jobs (
    job_id          bigint PRIMARY KEY,
    source_id       bigint NOT NULL REFERENCES scale_set_sources,
    assignment      text NOT NULL,  -- run, GUID and moment of assignment; never the number of a message
    job_guid        text NOT NULL DEFAULT '',
    workflow_run_id bigint NOT NULL DEFAULT 0,
    assigned_at     timestamptz NOT NULL,
    runner_name     text,
    started_at      timestamptz,
    finished_at     timestamptz,
    result          text,
    forge_job_id    bigint,
    UNIQUE (source_id, assignment)
);
CREATE INDEX scale_set_jobs_of_run ON scale_set_jobs (source_id, workflow_run_id, job_guid);
CREATE INDEX scale_set_jobs_by_age ON scale_set_jobs (assigned_at);

-- Entries that could not be read or written, for people to look at. Each is acknowledged, so that others flow on.
CREATE TABLE scale_set_messages (
    source_id  bigint NOT NULL REFERENCES scale_set_sources,
    digest     text NOT NULL,
    message_id bigint NOT NULL,
    at         timestamptz NOT NULL,
    why        text NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (source_id, digest)
);
