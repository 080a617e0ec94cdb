-- Since when a claim's job has been with another runner: an idle runner is given up some minutes after that, not before.
ALTER TABLE claims ADD COLUMN displaced_at timestamptz;
CREATE INDEX claims_displaced ON claims (claimed_at) WHERE state = 'running' AND job_id IS NULL;
