"""Pipelines of kind `dataframe`: Structured Streaming queries whose batches are Kafka transactions."""
