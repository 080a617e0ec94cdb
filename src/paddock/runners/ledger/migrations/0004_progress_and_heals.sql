-- What runners say of themselves, and what healing did.

-- The newest mark of each runner that reports. `changed_at` is when the mark last moved, `seen_at` when it was last said.
CREATE TABLE progress (
    pod_uid    text PRIMARY KEY CHECK (pod_uid <> ''),
    mark       text NOT NULL CHECK (length(mark) <= 200),
    changed_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    CONSTRAINT said_no_earlier_than_moved CHECK (seen_at >= changed_at)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
CREATE INDEX progress_by_age ON progress (seen_at);

-- One line a heal. What is deleted for good is written down first, as an intent (`done_at` is NULL), with what every ledger
-- said; so an intent is all that a process can leave behind that died between the two.
CREATE TABLE heals (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    kind     text NOT NULL CHECK (kind <> ''),
    subject  text NOT NULL CHECK (subject <> ''),
    pod_uid  text NOT NULL DEFAULT '',
    job_id   bigint,
    sentence text NOT NULL,
    evidence jsonb NOT NULL DEFAULT '{}',
    seconds  double precision NOT NULL DEFAULT 0 CHECK (seconds >= 0),
    done_at  timestamptz
);
CREATE UNIQUE INDEX heals_intended ON heals (kind, pod_uid) WHERE done_at IS NULL;
CREATE INDEX heals_by_age ON heals (at);
CREATE INDEX heals_of_pod ON heals (pod_uid) WHERE pod_uid <> '';
