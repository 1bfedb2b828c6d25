"""A group's committed offsets in REST: the target of a reset, and its changes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from pydantic import Field

from app.core.runs import offset_reset
from app.core.runs.offset_reset import OffsetTargetKind
from app.kit.web.api.bodies import Body, Given
from app.kit.web.api.shown import shows
from app.kit.web.api.taken import takes
from app.kit.web.api.words import Why

Offset = Annotated[int, Field(ge=0, lt=2**63)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Partition = Annotated[int, Field(ge=0, lt=2**31)]


@takes(offset_reset.PartitionOffset)
class PartitionOffset:
    """The next offset to read."""

    topic: Topic
    partition: Partition
    offset: Offset


class OffsetTarget(Body):
    """`timestamp` belongs to kind `timestamp` (RFC 3339, with a zone), `offsets` to kind `offsets`.

    `recorded` sets partitions without a committed offset to the last confirmed one; the others stay.
    """

    kind: Annotated[OffsetTargetKind, Field(strict=False)]
    timestamp: Annotated[datetime | None, Field(strict=False)] = None
    offsets: list[PartitionOffset] = Field(default=[])

    def to_domain(self) -> offset_reset.OffsetTarget:
        return msgspec.convert(
            self.model_dump(mode="json", include={"kind", "timestamp", "offsets"}), offset_reset.OffsetTarget
        )


class ExpectedOffset(Given):
    topic: Topic
    partition: Partition
    committed: Offset | None


class OffsetResetGiven(OffsetTarget):
    """expected: the committed offsets of the confirmed preview; 412 if one has moved since or is missing.

    why: the reason; 422 without one.
    """

    expected: list[ExpectedOffset] | None = None
    why: Why = None


@shows(offset_reset.OffsetChange)
class OffsetChange:
    """One partition. `records` is the number of additional (or, if negative, skipped) records."""

    records: int
