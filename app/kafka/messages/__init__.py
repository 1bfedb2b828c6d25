"""Schemas of Kafka messages that kafka-python lacks, in the notation that it reads (app/kafka/group_client.py)."""
