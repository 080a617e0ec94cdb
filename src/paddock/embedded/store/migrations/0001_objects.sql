-- The objects of the embedded API, and the one counter that numbers every change to them.

CREATE TABLE objects (
    resource  text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL,
    -- The complete JSON. Plain text, not jsonb: it is only ever written and loaded whole, so parsing it would cost on
    -- every write, and jsonb refuses some texts that JSON allows. `objects_json` below is for people.
    value     text NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITH (fillfactor = 70, toast_tuple_target = 8160);
-- No index holds revision or value and pages keep some room, so that an update stays on its page (HOT) and touches no
-- index. Compressing a few kilobytes would cost more than writing them.
ALTER TABLE objects ALTER COLUMN value SET STORAGE EXTERNAL;

CREATE TABLE store_counter (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- The newest revision given out. Written in the same transaction as the objects, so it never runs backwards.
    revision    bigint NOT NULL,
    -- Who opened the store last. A writer that finds another name here has lost the store and must stop.
    incarnation text NOT NULL
) WITH (fillfactor = 50);
INSERT INTO store_counter (revision, incarnation) VALUES (0, '');

CREATE VIEW objects_json AS
    SELECT resource, namespace, name, revision, value::jsonb AS value FROM objects;
