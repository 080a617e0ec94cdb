-- New jobs in one round trip; gives those that were added. What it says nothing of is known, has finished, or is being spoken of
-- elsewhere at this very moment, and is for the longer way. Two statements: the second must see every completion that was
-- committed before the lock was ours, and one statement has one snapshot, taken before it.
CREATE FUNCTION add_jobs(p_said jsonb, p_now timestamptz) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    ours bigint[];  -- jobs whose lock this call holds
BEGIN
    SELECT array_agg(new.job_id) INTO ours
    FROM jsonb_to_recordset(p_said) AS said (job jsonb) CROSS JOIN LATERAL jsonb_to_record(said.job) AS new (job_id bigint)
    WHERE pg_try_advisory_xact_lock(job_lock_key(new.job_id));

    RETURN QUERY
        INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id,
            workflow_name, run_attempt, job_name, head_branch, head_sha, label, labels, enqueued_at, changed_at, changed_by,
            changed_why, repository_id)
        SELECT new.job_id, new.account_id, new.pool, new.platform, new.vcpus, new.memory_mb, said.status, new.repository,
            new.workflow_run_id, new.workflow_name, new.run_attempt, new.job_name, new.head_branch, new.head_sha, new.label,
            new.labels, new.enqueued_at, p_now, said.by, said.why, new.repository_id
        FROM jsonb_to_recordset(p_said) AS said (job jsonb, by text, status text, why text)
        CROSS JOIN LATERAL jsonb_to_record(said.job) AS new (job_id bigint, account_id bigint, pool text, platform text,
            vcpus integer, memory_mb integer, repository text, workflow_run_id bigint, workflow_name text,
            run_attempt integer, job_name text, head_branch text, head_sha text, label text, labels text[],
            enqueued_at timestamptz, repository_id bigint)
        WHERE new.job_id = ANY (ours) AND NOT EXISTS (SELECT FROM completions done WHERE done.job_id = new.job_id)
        ORDER BY new.job_id
        ON CONFLICT (job_id) DO NOTHING
        RETURNING jobs.job_id;
END $$;
