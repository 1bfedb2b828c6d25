"""Audits: requested, planned, run as a Spark application, and stored with their results."""
