"""The store of the sampler's books."""

from __future__ import annotations

from typing import Protocol

from app.core.lag.book import LagBook


class LagStore(Protocol):
    """Keeps the books of Kafka clusters for a restart. Its calls block."""

    def load(self, kafka_cluster_id: str) -> LagBook:
        """Return an empty book if there is none, or if it cannot be used."""
        ...

    def save(self, kafka_cluster_id: str, book: LagBook) -> None:
        """Raise UnavailableError if it cannot be saved."""
        ...
