"""What a task knows about itself, for its heartbeats."""
