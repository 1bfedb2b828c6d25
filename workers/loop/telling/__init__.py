"""The reports of a task about itself, for its heartbeats."""
