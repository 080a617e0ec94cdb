-- An account is for good. Deleting one took its sessions along, which are the promise that no Pod serves two tenants, and its
-- limits, under which live claims are counted. Now whoever deletes an account by hand is refused as long as it has either.
ALTER TABLE limits DROP CONSTRAINT limits_account_id_fkey,
    ADD CONSTRAINT limits_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts;
ALTER TABLE jobs DROP CONSTRAINT jobs_account_id_fkey,
    ADD CONSTRAINT jobs_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts;
ALTER TABLE completions DROP CONSTRAINT completions_account_id_fkey,
    ADD CONSTRAINT completions_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts;
ALTER TABLE sessions DROP CONSTRAINT sessions_account_id_fkey,
    ADD CONSTRAINT sessions_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts;
