"""The observed transactions and groups of a cluster, with the source and the completeness of the data."""
