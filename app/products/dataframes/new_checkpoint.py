"""The plan of a new checkpoint: where the new query begins, what it reads again, loses and writes twice."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from app.core.clusters.partition import Partition
from app.core.journals.query_marker import QueryMarker
from app.core.pipelines.pipeline import PipelineDefinition, StartPosition
from app.kit.words import count, number
from app.products.dataframes.batch import QueryBatch

LONGEST_NOTE = 200
"""The longest reason that the sink keeps with its markers."""
_REVISION_SUFFIX = re.compile(r"-r[0-9]+$")
_NAMED = 3
_OPERATORS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("stateStoreSave", "sessionWindowStateStoreSave"),
        "aggregation",
        "Windows and groups are complete only if all their records are read again.",
    ),
    (
        ("dedupe",),
        "deduplication",
        "Duplicates of records that are not read again are not recognised.",
    ),
    (("symmetricHashJoin",), "join", "Rows that are not read again find no partner."),
)
_OTHER_OPERATOR = "Its state is complete only if all its records are read again."


class Begin(StrEnum):
    """START_POSITION: that of the definition. COMMITTED: the end of the newest committed batch."""

    START_POSITION = "start_position"
    COMMITTED = "committed"


class SourcePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A source partition, in offsets; markers of transactions count, too.

    committed: end of the newest committed batch; None: no batch has read the partition. begin: of the new query.
    log_start, end: those that the partition has now.
    """

    topic: str
    partition: int
    committed: int | None
    begin: int
    log_start: int
    end: int

    @property
    def read_again(self) -> int:
        return 0 if self.committed is None else max(0, self.committed - self.begin)

    @property
    def never_read(self) -> int:
        return max(0, self.begin - (self.log_start if self.committed is None else self.committed))


class WriterState(msgspec.Struct, frozen=True, kw_only=True):
    """A writer in Kafka. marker: number of its newest committed batch, -1 before the first; None: it has no marker.

    state: of its transactional id, in Kafka's words; None: the coordinator does not know the id.
    """

    writer: int
    transactional_id: str
    marker: int | None
    state: str | None
    is_open: bool = False


class LostState(msgspec.Struct, frozen=True, kw_only=True):
    """An operator of the query whose state is left. name: Spark's. rows: after the newest batch."""

    name: str
    kind: str
    rows: int
    effect: str


class RecordedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query as its recorded batches show it. has_state: None: none of this query is recorded."""

    has_state: bool | None = None
    operators: dict[str, int] = {}
    state_bytes: int | None = None
    watermark: datetime | None = None


class NewCheckpointPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a new checkpoint.

    left, checkpoint: the old and the new location. revision: the one that has the new location.
    newest_batch: the newest committed one, by its markers; -1: none.
    committed_refused: why the new query cannot begin at the committed offsets; None: it can.
    effects: on records, state and output. kafka: on markers and transactional ids. refusals: reasons against the
    command now, each with a way out.
    """

    pipeline: str
    group_id: str
    sink_topic: str
    left: str
    checkpoint: str
    revision: int
    begin: Begin
    committed_refused: str | None
    partitions: tuple[SourcePartition, ...]
    writers: tuple[WriterState, ...]
    has_state: bool | None
    state: tuple[LostState, ...]
    state_bytes: int | None
    watermark: datetime | None
    effects: tuple[str, ...] = ()
    kafka: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def newest_batch(self) -> int:
        return max((one.marker for one in self.writers if one.marker is not None), default=-1)

    @property
    def read_again(self) -> int:
        return sum(one.read_again for one in self.partitions)

    @property
    def never_read(self) -> int:
        return sum(one.never_read for one in self.partitions)


class LogBounds(msgspec.Struct, frozen=True):
    """The first offset of a partition, and its end for `read_committed` consumers."""

    start: int
    end: int


def recorded_query(newest: QueryBatch | None, *, is_same_query: bool) -> RecordedQuery:
    """Return what the newest recorded batch shows. is_same_query: of the current definition's code."""
    if newest is None:
        return RecordedQuery()
    return RecordedQuery(
        has_state=newest.state_rows is not None if is_same_query else None,
        operators=newest.state_operators,
        state_bytes=newest.state_bytes,
        watermark=newest.watermark,
    )


def next_location(location: str, *, revision: int) -> str:
    """Return the suggested location: `…/flights` and `…/flights-r3` become `…/flights-r5` for revision 5."""
    return f"{_REVISION_SUFFIX.sub('', location)}-r{revision}"


def marker_before_first(*, writers: int, why: str) -> str:
    """Return the metadata of a marker before the first batch, as workers/dataframes/java (Marker) reads it."""
    return f"fenceline/1 - -1 {writers} - - {' '.join(why.split())[:LONGEST_NOTE]}".rstrip()


def committed_refused(
    query: RecordedQuery,
    *,
    group_id: str,
    committed: Mapping[Partition, int],
    bounds: Mapping[Partition, LogBounds],
) -> str | None:
    """Return why a new query cannot begin at the committed offsets of its sources; None: it can."""
    known = {at: offset for at, offset in committed.items() if at in bounds}
    if not known:
        return f"Group {group_id} has no committed offset of the source topics."
    if query.has_state:
        return "The query has state, which would begin empty amid its windows. Begin at the start position."
    for at, offset in sorted(known.items()):
        if offset > bounds[at].end:
            return f"The committed offset {offset} of {at} is beyond its end {bounds[at].end}: the topic was replaced."
    return None


def begins(
    begin: Begin,
    *,
    start_position: StartPosition,
    committed: Mapping[Partition, int],
    bounds: Mapping[Partition, LogBounds],
) -> tuple[SourcePartition, ...]:
    """Return the first offset of each partition, by topic and number.

    COMMITTED: deleted records are skipped. A partition without an offset is new, and begins at its log start; so does
    Spark. A topic without any begins at the start position.
    """
    read_topics = {at.topic for at in committed if at in bounds}
    found: list[SourcePartition] = []
    for at, bound in sorted(bounds.items()):
        done = committed.get(at)
        if begin is Begin.COMMITTED and at.topic in read_topics:
            first = bound.start if done is None else max(done, bound.start)
        else:
            first = bound.end if start_position is StartPosition.LATEST else bound.start
        found.append(
            SourcePartition(
                topic=at.topic,
                partition=at.partition,
                committed=done,
                begin=first,
                log_start=bound.start,
                end=bound.end,
            )
        )
    return tuple(found)


def lost_state(operators: Mapping[str, int]) -> tuple[LostState, ...]:
    """Return the state that the old checkpoint keeps, an item for each operator."""
    found: list[LostState] = []
    for name, rows in sorted(operators.items()):
        kind, effect = next(
            ((kind, effect) for prefixes, kind, effect in _OPERATORS if name.startswith(prefixes)),
            ("state", _OTHER_OPERATOR),
        )
        found.append(LostState(name=name, kind=kind, rows=rows, effect=effect))
    return tuple(found)


def described(plan: NewCheckpointPlan) -> NewCheckpointPlan:
    """Return the plan with the sentences of its effects."""
    return msgspec.structs.replace(plan, effects=tuple(_effects(plan)), kafka=tuple(_kafka(plan)))


def refusals(
    plan: NewCheckpointPlan,
    *,
    live_run: str | None,
    members: Collection[str],
    definition: PipelineDefinition,
) -> tuple[str, ...]:
    """Return the reasons against the command now. live_run: its state. members: client ids in the group."""
    found: list[str] = []
    if live_run is not None:
        found.append(f"The run is {live_run}. Drain it first: `fenceline runs drain {plan.pipeline}`.")
    elif members:
        named = ", ".join(sorted(members)[:_NAMED])
        found.append(
            f"Group {plan.group_id} has {count(len(members), 'member')} ({named}). An ended driver leaves within "
            f"{number(definition.session_timeout_ms / 1000)} s; stop other members."
        )
    found += [
        f"The transaction of {one.transactional_id} is open. It ends within "
        f"{number(definition.transaction_timeout_ms / 1000)} s, or by "
        f"`fenceline fence {one.transactional_id} --execute`."
        for one in plan.writers
        if one.is_open and live_run is None
    ]
    return tuple(found)


def _effects(plan: NewCheckpointPlan) -> list[str]:
    told = [f"{_records(plan.read_again)} are read again." if plan.read_again else "No record is read again."]
    if plan.read_again:
        told.append(
            f"Their rows are written to {plan.sink_topic} a second time. Delete the first ones, or use another sink "
            "topic."
        )
    if plan.never_read:
        told.append(f"{_records(plan.never_read)} are never read. Their rows are missing.")
    if plan.has_state is False:
        return told
    if plan.has_state is None:
        told.append("No batch of this query is recorded, so its state is not known. If it has any, it begins empty.")
    elif not plan.state:
        told.append("The state begins empty: windows whose records are not read again are incomplete.")
    for one in plan.state:
        rows = f"{number(one.rows)} row{'' if one.rows == 1 else 's'}"
        told.append(f"The state of the {one.kind} ({rows}) is lost. {one.effect}")
    cut = sum(one.begin == one.log_start > 0 for one in plan.partitions)
    if cut:
        told.append(
            "1 partition begins after offset 0: the new state lacks its deleted records."
            if cut == 1
            else f"{cut} partitions begin after offset 0: the new state lacks their deleted records."
        )
    return told


def _kafka(plan: NewCheckpointPlan) -> list[str]:
    markers = [one for one in plan.writers if one.marker is not None]
    if plan.newest_batch >= 0:
        first = (
            f"Group {plan.group_id} has the marker of batch {number(plan.newest_batch)}, so the sink refuses a new "
            "checkpoint. The command resets the markers, and keeps the reason with them."
        )
    elif markers:
        first = "No batch is committed since the last new checkpoint. The counts are from its offsets."
    else:
        first = f"Group {plan.group_id} has no markers. The command writes them."
    return [
        first,
        "After it the sink refuses the old checkpoint.",
        "The group's offsets of the sources become the begin of the new query.",
        "The transactional ids stay. The next driver initialises them, which fences older producers.",
    ]


def _records(offsets: int) -> str:
    return f"At most {number(offsets)} record{'' if offsets == 1 else 's'}"


def is_same_query(one: PipelineDefinition, other: PipelineDefinition) -> bool:
    """Return whether both have the same code, so that state of one is state of the other."""
    first, second = one.dataframe, other.dataframe
    if first is None or second is None:
        return False
    return (first.sql, first.function, first.sha256) == (second.sql, second.function, second.sha256)


def markers_of(markers: Mapping[Partition, QueryMarker], *, sink_topic: str) -> dict[int, int]:
    """Return the newest batch of each writer of this sink topic."""
    return {at.partition: marker.batch for at, marker in markers.items() if at.topic == sink_topic}


def writer_count(definition: PipelineDefinition, markers: Mapping[int, int]) -> int:
    """Return the number of writers that have a marker, or will have one."""
    return max(definition.tasks_per_instance, max(markers, default=-1) + 1)
