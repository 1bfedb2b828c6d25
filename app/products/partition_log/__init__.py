"""The log of a partition, batch by batch, with the outcome of each transaction."""
