"""The task in its consumer group: owned partitions, start positions, and commits without a transaction."""
