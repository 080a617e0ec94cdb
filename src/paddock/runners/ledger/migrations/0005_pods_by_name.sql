-- People ask for a Pod by its name, also after it is gone. A session keeps the name; a fence is lifted with its Pod, so its
-- lines in the log keep it, too.
ALTER TABLE transitions ADD COLUMN pod_name text;
CREATE INDEX transitions_of_pod_name ON transitions (pod_name, transition_id) WHERE pod_name IS NOT NULL;
CREATE INDEX sessions_of_pod_name ON sessions (pod_name, started_at);
