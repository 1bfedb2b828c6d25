"""The Brokers port on a real cluster: confluent-kafka's AdminClient in threads, every call bounded."""

from __future__ import annotations


class KafkaBrokers:
    """Answers what app/ports/brokers.py asks. Clients are kept per cluster configuration; `close` lets them go."""
