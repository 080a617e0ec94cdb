-- Each job that ended because of something we did, whichever process did it: by healing (reap), because a person gave it up
-- (force), because a machine's time limit passed (drain_timeout). The key is the Pod's uid, or what stands for it where the Pod
-- is another cluster's, so that two reports of it are one row. `at` is when it was given up, `recorded_at` when it arrived here.
CREATE TABLE kills (
    kill_key    text PRIMARY KEY CHECK (kill_key <> ''),
    at          timestamptz NOT NULL,
    path        text NOT NULL CHECK (path <> ''),
    pod_uid     text NOT NULL,
    pod_name    text NOT NULL,
    account     text NOT NULL,
    machine     text NOT NULL,
    job_id      bigint,
    why         text NOT NULL,
    recorded_at timestamptz NOT NULL
);
CREATE INDEX kills_by_at ON kills (at);
