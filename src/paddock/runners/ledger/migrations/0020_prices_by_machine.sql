-- What a job's Mac cost an hour: looked up for each job that ended, by the machine that it ran on.
CREATE INDEX mac_states_of_machine ON mac_states (machine, at) WHERE machine <> '';
