"""What lies in a partition's log, batch by batch, and what became of it."""
