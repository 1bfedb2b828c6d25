"""What services ask of the database about the offset log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from app.domain.offset_log.check import Finding, PipelineCheck
from app.domain.offset_log.heard import Heard
from app.domain.offset_log.hearing import Init
from app.domain.offset_log.keeping import Place
from app.domain.offset_log.record import CheckRecord, FindingRecord
from app.domain.offset_log.report import OffsetReport
from app.domain.offset_log.silence import Attempted
from app.domain.runs.recorded_offset import RecordedOffset
from app.domain.runs.task import TaskReport


class OffsetLogRepository(Protocol):
    """Rows by attempt and partition; of one event the one that stands for the most checkpoints is kept."""

    async def add(self, attempt: TaskReport, offsets: OffsetReport, *, now: datetime) -> None:
        """Keep what an attempt tells; what it told before, later or as late, stays."""
        ...

    async def heard(
        self, pipeline: str, *, since: datetime | None, places: Sequence[Place] | None = None
    ) -> list[Heard]:
        """What attempts have told of a pipeline's partitions since then; None: all that is kept. Of `places` only."""
        ...

    async def attempted(self, pipeline: str) -> list[Attempted]:
        """Every attempt of which anything is kept, of whatever partition or of none."""
        ...

    async def inits(self, pipeline: str) -> Mapping[str, Sequence[Init]]:
        """By each transactional id that is the pipeline's: what attempts were given with it, as far as is kept."""
        ...

    async def told_since(self, since: datetime | None) -> list[str]:
        """The pipelines of which anything was told since then, by name."""
        ...

    async def note_check(self, pipeline: str, check: PipelineCheck) -> None:
        """Keep how the newest check ended; one of which nothing was told is not kept."""
        ...

    async def add_findings(self, pipeline: str, findings: Sequence[Finding], *, now: datetime) -> list[Finding]:
        """Keep what contradicts, up to a bound (app/domain/offset_log/keeping.py); those to tell of."""
        ...

    async def last_check(self, pipeline: str) -> CheckRecord | None: ...

    async def findings(self, pipeline: str, *, limit: int) -> list[FindingRecord]:
        """Newest first."""
        ...

    async def contradicted(self, *, since: datetime) -> dict[str, int]:
        """How many contradictions were found since then, of each pipeline that has any."""
        ...


class RecordedOffsetRepository(Protocol):
    """The last offset of each partition of a group whose commit was confirmed and reported."""

    async def of_group(self, *, kafka_cluster_id: str, group: str) -> list[RecordedOffset]:
        """By topic and partition."""
        ...

    async def report(
        self, offsets: Sequence[RecordedOffset], *, run_id: str, kafka_cluster_id: str, group: str
    ) -> None:
        """Keep what a task of this run has confirmed.

        In one run offsets only grow; a later run's, or those of another topic of the name, replace what was there.
        """
        ...

    async def replace(
        self, offsets: Sequence[RecordedOffset], *, pipeline: str, kafka_cluster_id: str, group: str, now: datetime
    ) -> None:
        """Keep what somebody has set, whatever was there and whatever an earlier run still reports."""
        ...
