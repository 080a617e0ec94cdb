-- The Mac that asked for the claim's Pod, by its machine's uid; NULL where the Pod asked itself. Its session keeps it.
ALTER TABLE claims ADD COLUMN mac_uid text;
ALTER TABLE sessions ADD COLUMN mac_uid text;
CREATE INDEX claims_of_mac ON claims (mac_uid) WHERE mac_uid IS NOT NULL;
CREATE INDEX sessions_of_mac ON sessions (mac_uid, started_at) WHERE mac_uid IS NOT NULL;

CREATE OR REPLACE FUNCTION commit_claim_at(
    p_pod_uid text, p_generation bigint, p_runner_name text, p_place text, p_by text, p_why text, p_now timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text := commit_claim(p_pod_uid, p_generation, p_runner_name, true, p_by, p_why, p_now);
BEGIN
    IF answer = 'running' THEN
        UPDATE sessions s SET place = coalesce(s.place, p_place), mac_uid = c.mac_uid
        FROM claims c
        WHERE s.pod_uid = p_pod_uid AND s.generation = p_generation AND s.runner_name = p_runner_name
          AND c.pod_uid = p_pod_uid AND c.generation = p_generation
          AND (s.place IS NULL AND p_place IS NOT NULL OR s.mac_uid IS DISTINCT FROM c.mac_uid);
    END IF;
    RETURN answer;
END $$;
