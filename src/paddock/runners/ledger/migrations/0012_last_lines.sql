-- The last lines of a runner that ended under its job, kept with its session for as long as that is, when its log is forgotten.
ALTER TABLE sessions ADD COLUMN last_lines text;
