"""The task's place in its consumer group: what it owns, where it begins, what it commits without a transaction."""
