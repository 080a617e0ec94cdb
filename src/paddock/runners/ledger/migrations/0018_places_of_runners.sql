-- Where a session's runner was registered when it was minted, as GitHub's API names it (orgs/acme, repos/acme/app): it stands in
-- the list of that place and in no other. NULL: it was handed out by a release that did not keep it.
ALTER TABLE sessions ADD COLUMN place text;

-- The mark in the names of this installation's runners: at GitHub a name is all that tells them from another's. Drawn once.
CREATE TABLE runner_mark (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    mark text NOT NULL CHECK (mark ~ '^[0-9a-f]{6}$')
);

-- commit_claim, with the place in the session that it opens. The place of a session is never changed.
CREATE FUNCTION commit_claim_at(
    p_pod_uid text, p_generation bigint, p_runner_name text, p_place text, p_by text, p_why text, p_now timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text := commit_claim(p_pod_uid, p_generation, p_runner_name, true, p_by, p_why, p_now);
BEGIN
    IF answer = 'running' AND p_place IS NOT NULL THEN
        UPDATE sessions SET place = p_place
        WHERE pod_uid = p_pod_uid AND generation = p_generation AND runner_name = p_runner_name AND place IS NULL;
    END IF;
    RETURN answer;
END $$;
