-- What runners print, as far as their agent posts it: the end of it, at most 1 MiB a Pod, in pieces of at most 64 KiB.

-- One line a Pod. Bytes are counted from the first that the runner printed; those before the oldest piece are forgotten.
CREATE TABLE runner_logs (
    pod_uid    text PRIMARY KEY CHECK (pod_uid <> ''),
    next_byte  bigint NOT NULL CHECK (next_byte >= 0),
    ended      boolean NOT NULL DEFAULT false,
    changed_at timestamptz NOT NULL
);
CREATE INDEX runner_logs_by_age ON runner_logs (changed_at);

CREATE TABLE runner_log_pieces (
    pod_uid    text NOT NULL REFERENCES runner_logs ON DELETE CASCADE,
    first_byte bigint NOT NULL CHECK (first_byte >= 0),
    at         timestamptz NOT NULL,
    content    bytea NOT NULL CHECK (octet_length(content) BETWEEN 1 AND 65536),
    PRIMARY KEY (pod_uid, first_byte)
);
