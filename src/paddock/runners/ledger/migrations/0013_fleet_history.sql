-- The past of the fleet: numbers by the minute, what each Mac was from when to when, what was wrong from when to when.

-- One row a step of time, and one writer's row only: the key is the step and the moment at which it began. Minutes are rolled
-- up into quarters of an hour and hours, and each is forgotten at its own age. `macs` counts Macs by state.
CREATE TABLE samples (
    step     integer NOT NULL CHECK (step IN (60, 900, 3600)),
    at       timestamptz NOT NULL,
    macs     jsonb NOT NULL,
    waiting  double precision NOT NULL,
    running  double precision NOT NULL,
    started  integer NOT NULL,
    wait_p50 double precision,
    wait_p95 double precision,
    heals    integer NOT NULL,
    per_hour double precision NOT NULL,
    currency text NOT NULL,
    PRIMARY KEY (step, at)
);

-- A stretch of a Mac's life: `until` is NULL while it lasts. A Mac has at most one that lasts.
CREATE TABLE mac_states (
    host    text NOT NULL CHECK (host <> ''),
    at      timestamptz NOT NULL,
    until   timestamptz,
    state   text NOT NULL,
    machine text NOT NULL,
    title   text NOT NULL,
    zone    text NOT NULL,
    fleet   text NOT NULL,
    price   double precision NOT NULL,
    PRIMARY KEY (host, at),
    CONSTRAINT a_stretch_ends_after_it_began CHECK (until > at)
);
CREATE UNIQUE INDEX mac_states_now ON mac_states (host) WHERE until IS NULL;
CREATE INDEX mac_states_ended ON mac_states (until) WHERE until IS NOT NULL;

-- What was wrong, by the same rule; a restart is over as soon as it is told.
CREATE TABLE incidents (
    incident_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text NOT NULL CHECK (kind IN ('problem', 'restart')),
    key         text NOT NULL,
    about       text NOT NULL,
    sentence    text NOT NULL,
    at          timestamptz NOT NULL,
    until       timestamptz
);
CREATE UNIQUE INDEX incidents_now ON incidents (key) WHERE until IS NULL;
CREATE INDEX incidents_by_age ON incidents (at);
CREATE INDEX incidents_ended ON incidents (until) WHERE until IS NOT NULL;

-- On which Node a runner was: known to the cluster only while its Pod is there.
ALTER TABLE sessions ADD COLUMN node_name text;
CREATE INDEX sessions_of_node ON sessions (node_name, started_at) WHERE node_name IS NOT NULL;
