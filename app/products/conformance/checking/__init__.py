"""Checks of Kafka's transactional promises on a real cluster, made from outside with ordinary clients."""
