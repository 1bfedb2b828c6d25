"""A comparison's job: the records of both sides by id, then field by field (docs/parallel-runs.md)."""
