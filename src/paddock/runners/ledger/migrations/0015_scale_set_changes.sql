-- What the scale set was last asked to be, so that a pool that was changed is told from a GitHub that dropped labels; and
-- since when the set is being replaced. NULL: a set of an older release, or none. And since when its session stands.
ALTER TABLE scale_set_sources
    ADD COLUMN session_since timestamptz,
    ADD COLUMN asked_labels text[],
    ADD COLUMN asked_group text,
    ADD COLUMN replacing_since timestamptz;
