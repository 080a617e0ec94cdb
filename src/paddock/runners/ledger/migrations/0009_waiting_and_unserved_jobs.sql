-- Two ways to wait outside of the line, both statuses of their own, so that nothing that counts or hands out queued jobs
-- can take one for a queued job: `waiting` is held back by GitHub until a person approves it, `unserved` carries labels
-- that no pool offers. Neither has a claim.
ALTER TABLE jobs DROP CONSTRAINT jobs_status_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_status_check
    CHECK (status IN ('waiting', 'unserved', 'queued', 'claimed', 'running', 'completed', 'cancelled'));
ALTER TABLE jobs DROP CONSTRAINT a_queued_job_is_unbound;
ALTER TABLE jobs ADD CONSTRAINT a_queued_job_is_unbound
    CHECK (status NOT IN ('waiting', 'unserved', 'queued') OR (generation IS NULL AND pod_uid IS NULL));

-- All labels of the job, so that it can be routed anew when pools change. Empty for jobs that were queued before this.
ALTER TABLE jobs ADD COLUMN labels text[] NOT NULL DEFAULT '{}';

CREATE INDEX jobs_outside_the_line ON jobs (enqueued_at, job_id) WHERE status IN ('waiting', 'unserved');

-- A job that is routed to another pool leaves a line, too. Replaced in one statement and only ever wider: no row moves
-- without a line meanwhile, and the release before, which routes no job anew, leaves the lines that it always left.
CREATE OR REPLACE TRIGGER log_moved_job AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.generation IS DISTINCT FROM NEW.generation
          OR OLD.pool IS DISTINCT FROM NEW.pool)
    EXECUTE FUNCTION log_job();
