-- How many jobs ended in each step, by their conclusion: beside the other numbers of the fleet over time.
ALTER TABLE samples ADD COLUMN ended jsonb NOT NULL DEFAULT '{}';
