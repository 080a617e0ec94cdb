"""What every room of the house stands on: time, chance, secrets, settings, logs and metrics."""
