"""Avro schemas of files: inferred from JSON values or given, compared, and identified by fingerprint."""
