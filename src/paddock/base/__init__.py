"""What every package builds on: time, random numbers, secrets, settings, logs and metrics."""
