"""Checks of Kafka's transactional guarantees on a real cluster, made with ordinary clients."""
