"""Pipelines: definitions, revisions, files and checks."""
