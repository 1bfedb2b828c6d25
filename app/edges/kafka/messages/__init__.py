"""Schemas of Kafka messages that kafka-python lacks, in its notation (app/edges/kafka/group_client.py)."""
