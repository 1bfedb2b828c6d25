"""Audits: whether every id that a pipeline read has the outputs it should have, once, by what is in the topics."""
