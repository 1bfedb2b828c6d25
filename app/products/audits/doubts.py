"""Gaps that the server knows before an audit begins, from the revisions and the start of the pipeline.

An audit judges by one revision. The revision in force at a record's time is known from the leases only. The padding
is the longest time between an input and its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.pipelines.pipeline import DataframeQuery, FileSink, StartPosition, Transform
from app.core.pipelines.pipeline_record import Revision
from app.kit.storable import moment_of_ms
from app.products.audits.result import AuditSide, Gap, GapReason
from app.products.audits.specification import Everything, TimeWindow, Window


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions that had instances in a time range.

    revisions: the newest first. begun_at: first start of the pipeline, unless it is before the range.
    """

    revisions: tuple[int, ...] = ()
    begun_at: datetime | None = None


def span_in_force(window: Window, *, padding_s: int) -> tuple[datetime | None, datetime | None]:
    """Return the time range in which records of the window and its padding were processed; None if not known."""
    if not isinstance(window, TimeWindow):
        return None, None
    padding = timedelta(seconds=padding_s)
    return moment_of_ms(window.start_ms) - 2 * padding, moment_of_ms(window.end_ms) + padding


def revision_to_judge_by(in_force: InForce, *, current: int) -> int:
    """Return the current revision if it was in force or nothing is known, else the newest one in force."""
    if current in in_force.revisions or not in_force.revisions:
        return current
    return in_force.revisions[0]


def doubts_of(
    window: Window, in_force: InForce, *, judged_by: Revision, others: Sequence[Revision], is_comparison: bool = False
) -> tuple[Gap, ...]:
    """Return the gaps that the revisions in force cause.

    others: the other revisions in force. is_comparison: then the place of outputs matters, and no transform. A
        recomputation is none here.
    """
    doubts: list[Gap] = []
    definition = judged_by.definition
    facts = _writes_to if is_comparison else _expects
    different = sorted(one.number for one in others if facts(one) != facts(judged_by))
    if different:
        named = ", ".join(f"revision {number}" for number in different)
        doubts.append(
            Gap(
                side=AuditSide.SINK,
                topic=definition.sink_topic,
                partition=None,
                reason=GapReason.REVISION_CHANGED,
                sentence=f"The audit uses revision {judged_by.number}, but {named} with other expected outputs ran in "
                "the same time: audit the windows before and after the change separately.",
            )
        )
    # A window of offsets names the first processed offset itself.
    begins_late = isinstance(window, Everything) or (isinstance(window, TimeWindow) and in_force.begun_at is not None)
    if definition.start_position is StartPosition.LATEST and begins_late:
        when = "" if in_force.begun_at is None else f" at {in_force.begun_at:%Y-%m-%d %H:%M} UTC"
        doubts.append(
            Gap(
                side=AuditSide.SOURCE,
                topic=definition.source_topics[0],
                partition=None,
                reason=GapReason.NOT_BEGUN,
                sentence=f"The pipeline started at the end of its topics{when}: earlier records are not processed, and "
                "cannot be distinguished from lost ones.",
            )
        )
    return tuple(doubts)


def _expects(revision: Revision) -> tuple[object, ...]:
    """Return the parts of a revision that determine the expected outputs and their topics."""
    definition = revision.definition
    return (
        definition.source_topics,
        definition.group_id,
        definition.sink_topic,
        _rows_of(definition.transform),
        revision.transform_source_sha256,
        definition.errors.policy,
        definition.errors.dead_letter_topic,
        None if definition.files is None else _asks_of_records(definition.files),
    )


def _rows_of(transform: Transform) -> object:
    """Return the parts of a transform that determine its outputs: a query has settings of its execution, too."""
    if not isinstance(transform, DataframeQuery):
        return transform
    return transform.streams, transform.sql, transform.function, transform.sha256, transform.output_mode


def _writes_to(revision: Revision) -> tuple[object, ...]:
    return revision.definition.sink_topic, revision.definition.files is None


def _asks_of_records(files: FileSink) -> tuple[object, ...]:
    """Return the parts of a file sink that determine the records in its files, and not their place."""
    return files.partition_by, files.event_time, files.schema, files.conflict
