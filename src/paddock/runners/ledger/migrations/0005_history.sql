-- History: found by name, and forgotten by age.

-- People ask for a Pod by its name, also after it is gone. A session keeps the name; a fence is lifted with its Pod, so its
-- lines in the log keep it, too.
ALTER TABLE transitions ADD COLUMN pod_name text;
CREATE INDEX transitions_of_pod_name ON transitions (pod_name, transition_id) WHERE pod_name IS NOT NULL;
CREATE INDEX sessions_of_pod_name ON sessions (pod_name, started_at);

-- Sessions lie in the table nearly in the order in which they began, so an index of a few pages finds the old end.
CREATE INDEX sessions_started ON sessions USING brin (started_at);
