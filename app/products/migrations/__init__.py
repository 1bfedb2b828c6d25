"""Migrate a running pipeline between one producer for each partition and one for each task, without duplicates."""
