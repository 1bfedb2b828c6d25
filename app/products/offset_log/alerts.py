"""The alert of contradicting offset events."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.core.pipelines.pipeline_record import Pipeline
from app.products.offset_log.check import OffsetFinding


def contradiction_alert(pipeline: Pipeline, finding: OffsetFinding, *, others: int, now: datetime) -> Alert:
    """others: the number of other contradictions found at the same time."""
    name = f"{finding.topic}-{finding.partition}"
    more = f" {others} more contradictions were found at the same time." if others else ""
    return Alert(
        kind=AlertKind.OFFSETS_CONTRADICTED,
        state=AlertState.HAPPENED,
        subject=subject_of("offsets", pipeline.name, finding.group, name, finding.kind, finding.start),
        at=now,
        sentence=f"The offset events of {pipeline.name} contradict each other in {name}: {finding.message}.{more}",
        page=f"/pipelines/{quote(pipeline.name, safe='')}/offsets",
        cluster=pipeline.cluster,
        pipeline=pipeline.name,
        partitions=(name,),
    )
