"""The observed transactions and groups."""
