"""The built-in kinds: what is served, what the server fills in, and what it refuses."""
