"""What the server knows of a window before it is audited, and what then cannot be proven of it.

An audit judges by one revision. Which one was in force at a record's time is known only as well as leases are, and the
padding says how far from its input, in time, an output may lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.pipelines.pipeline import FileSink, StartPosition
from app.core.pipelines.pipeline_record import Revision
from app.kit.storable import moment_of_ms
from app.products.audits.result import Gap, GapReason, Side
from app.products.audits.specification import Everything, TimeWindow, Window


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """Whose instances lived in a span of time.

    revisions: the newest first. begun_at: when the pipeline was first started, if that is not before the span.
    """

    revisions: tuple[int, ...] = ()
    begun_at: datetime | None = None


def span_in_force(window: Window, *, padding_s: int) -> tuple[datetime | None, datetime | None]:
    """From when to when records of the window and its padding were processed; None: it is not known."""
    if not isinstance(window, TimeWindow):
        return None, None
    padding = timedelta(seconds=padding_s)
    return moment_of_ms(window.start_ms) - 2 * padding, moment_of_ms(window.end_ms) + padding


def revision_to_judge_by(in_force: InForce, *, current: int) -> int:
    """The current one where it was in force, or where nothing is known; else the newest that was."""
    if current in in_force.revisions or not in_force.revisions:
        return current
    return in_force.revisions[0]


def doubts_of(window: Window, in_force: InForce, *, judged_by: Revision, others: Sequence[Revision]) -> tuple[Gap, ...]:
    """others: the definitions of the revisions that were in force beside the one that is judged by."""
    doubts: list[Gap] = []
    definition = judged_by.definition
    different = sorted(one.number for one in others if _expects(one) != _expects(judged_by))
    if different:
        named = ", ".join(f"revision {number}" for number in different)
        doubts.append(
            Gap(
                side=Side.SINK,
                topic=definition.sink_topic,
                partition=None,
                reason=GapReason.REVISION_CHANGED,
                sentence=f"It is judged by revision {judged_by.number} alone, and {named}, of which other outputs are "
                "expected, ran in its time, too: audit what lies before and after the change each for itself.",
            )
        )
    # Whoever names offsets says by that from where on they are processed.
    begins_late = isinstance(window, Everything) or (isinstance(window, TimeWindow) and in_force.begun_at is not None)
    if definition.start_position is StartPosition.LATEST and begins_late:
        when = "" if in_force.begun_at is None else f" at {in_force.begun_at:%Y-%m-%d %H:%M} UTC"
        doubts.append(
            Gap(
                side=Side.SOURCE,
                topic=definition.source_topics[0],
                partition=None,
                reason=GapReason.NOT_BEGUN,
                sentence=f"The pipeline began at the end of its topics{when}: what came in before it is not to be "
                "processed, and cannot be told from what is lost.",
            )
        )
    return tuple(doubts)


def _expects(revision: Revision) -> tuple[object, ...]:
    """All of a revision that says which outputs of which inputs there must be, and where."""
    definition = revision.definition
    return (
        definition.source_topics,
        definition.group_id,
        definition.sink_topic,
        definition.transform,
        revision.transform_source_sha256,
        definition.errors.policy,
        definition.errors.dead_letter_topic,
        None if definition.files is None else _asks_of_records(definition.files),
    )


def _asks_of_records(files: FileSink) -> tuple[object, ...]:
    """All of a file sink that decides which records can be in its files; where these are does not."""
    return files.partition_by, files.event_time, files.schema, files.conflict
