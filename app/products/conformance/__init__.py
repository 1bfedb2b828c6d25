"""The conformance of a cluster to Kafka's transactional guarantees: checks, verdicts and the report."""
