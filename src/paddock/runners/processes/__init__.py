"""What each production process runs of the runner subsystem: `dispatch` and `operator`, and the rights of both."""
