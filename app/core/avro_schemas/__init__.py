"""Avro schemas of files: inferred from JSON values or given beforehand, compared, and told apart by fingerprint."""
