"""The reader of topics and records for the author's form and for trials; the product `topics` provides it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.journals.log_look import Landmark, LogStart
from app.core.transforms.trying import SampleRecord
from app.kit.access import Principal

ALL_BYTES = 8 << 20
"""The largest sum of the records that are read for the form or for a trial."""


class SampleQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The newest records of a topic, or the first ones from a start on. partition: None stands for all.

    most_bytes: the largest sum of the records. Those beyond it are left out.
    """

    topic: str
    limit: int
    partition: int | None = None
    start: LogStart = Landmark.END
    most_bytes: int = ALL_BYTES


class SampleRead(msgspec.Struct, frozen=True, kw_only=True):
    """records: by time, only those that read_committed consumers get. notes: sentences about what was not read."""

    records: tuple[SampleRecord, ...]
    notes: tuple[str, ...] = ()


class TopicReader(Protocol):
    async def names(self, cluster: Cluster) -> tuple[str, ...]:
        """Return the topics that are not internal, at most 10 s old. Raises UnavailableError."""
        ...

    async def read(self, by: Principal, cluster: Cluster, query: SampleQuery) -> SampleRead:
        """Read records with whole contents; each answer is a row of the command log, written before it is returned.

        Raises ForbiddenError if the role may not see records, NotFoundError, InvalidError, UnavailableError.
        """
        ...
