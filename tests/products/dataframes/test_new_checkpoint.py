"""The plan of a new checkpoint: begin, records read again or never, lost state, and what Kafka refuses."""

from __future__ import annotations

import re

import pytest

from app.core.clusters.partition import Partition
from app.core.journals.query_marker import QueryMarker
from app.core.pipelines.pipeline import StartPosition
from app.products.dataframes.new_checkpoint import (
    Begin,
    LogBounds,
    NewCheckpointPlan,
    RecordedQuery,
    WriterState,
    begins,
    committed_refused,
    described,
    is_same_query,
    lost_state,
    marker_before_first,
    markers_of,
    next_location,
    recorded_query,
    refusals,
    writer_count,
)
from tests.support.control_plane import definition
from tests.support.queries import QUERY, batch

FIRST, SECOND, OTHER = Partition("in", 0), Partition("in", 1), Partition("other", 0)
COMMITTED = {FIRST: 100, SECOND: 40}
BOUNDS = {FIRST: LogBounds(30, 125), SECOND: LogBounds(0, 50)}
STATE = {"stateStoreSave": 500, "dedupeWithinWatermark": 1, "symmetricHashJoin": 7, "transformWithStateExec": 2}
PIPELINE = definition(transform=QUERY, tasks_per_instance=2)


def plan_of(
    begin: Begin = Begin.START_POSITION,
    *,
    position: StartPosition = StartPosition.EARLIEST,
    committed: dict[Partition, int] = COMMITTED,
    bounds: dict[Partition, LogBounds] = BOUNDS,
    has_state: bool | None = True,
    operators: dict[str, int] | None = None,
    markers: tuple[int | None, ...] = (11, 12),
    is_open: bool = False,
) -> NewCheckpointPlan:
    plan = NewCheckpointPlan(
        pipeline="flights",
        group_id="g",
        sink_topic="out",
        left="file:///srv/a",
        checkpoint="file:///srv/b",
        revision=2,
        begin=begin,
        committed_refused=None,
        partitions=begins(begin, start_position=position, committed=committed, bounds=bounds),
        writers=tuple(
            WriterState(
                writer=at, transactional_id=f"fl.t.flights.0.{at}", marker=one, state="Ongoing", is_open=is_open
            )
            for at, one in enumerate(markers)
        ),
        has_state=has_state,
        state=lost_state(operators or {}),
        state_bytes=None,
        watermark=None,
    )
    return described(plan)


@pytest.mark.parametrize(
    ("begin", "position", "firsts", "read_again", "never_read"),
    [
        (Begin.COMMITTED, StartPosition.EARLIEST, [100, 40], 0, 0),
        (Begin.COMMITTED, StartPosition.LATEST, [100, 40], 0, 0),
        (Begin.START_POSITION, StartPosition.EARLIEST, [30, 0], 70 + 40, 0),
        (Begin.START_POSITION, StartPosition.LATEST, [125, 50], 0, 25 + 10),
    ],
)
def test_begin_decides_what_is_read_again_and_what_is_never_read(
    begin: Begin, position: StartPosition, firsts: list[int], read_again: int, never_read: int
) -> None:
    plan = plan_of(begin, position=position)
    assert [one.begin for one in plan.partitions] == firsts
    assert (plan.read_again, plan.never_read) == (read_again, never_read)
    text = " ".join(plan.effects)
    assert ("written to out a second time" in text) is bool(read_again)
    assert ("are never read" in text) is bool(never_read)


def test_deleted_records_are_never_read_and_new_partitions_begin_at_their_log_start() -> None:
    plan = plan_of(
        Begin.COMMITTED,
        committed={FIRST: 100},
        bounds={FIRST: LogBounds(150, 200), SECOND: LogBounds(7, 9)},
        has_state=False,
    )
    assert [one.begin for one in plan.partitions] == [150, 7]
    assert plan.effects == (
        "No record is read again.",
        "At most 50 records are never read. Their rows are missing.",
    )


def test_topic_without_committed_offsets_begins_at_the_start_position() -> None:
    bounds = {**BOUNDS, OTHER: LogBounds(3, 8)}
    plan = plan_of(Begin.COMMITTED, position=StartPosition.LATEST, bounds=bounds)
    assert plan.partitions[-1].begin == 8
    assert plan.never_read == 5


def test_state_is_named_by_operator_with_what_its_loss_does() -> None:
    plan = plan_of(operators=STATE)
    assert [(one.kind, one.rows) for one in plan.state] == [
        ("deduplication", 1),
        ("aggregation", 500),
        ("join", 7),
        ("state", 2),
    ]
    text = " ".join(plan.effects)
    assert "The state of the aggregation (500 rows) is lost. Windows and groups are complete only if" in text
    assert "The state of the deduplication (1 row) is lost. Duplicates of records" in text
    assert "The state of the join (7 rows) is lost. Rows that are not read again find no partner." in text
    assert "1 partition begins after offset 0: the new state lacks its deleted records." in text


def test_state_of_an_older_driver_and_unknown_state_are_told() -> None:
    assert "The state begins empty" in " ".join(plan_of().effects)
    assert "its state is not known" in " ".join(plan_of(has_state=None).effects)
    assert "state" not in " ".join(plan_of(has_state=False).effects)


def test_markers_of_kafka_decide_what_the_sink_refuses() -> None:
    assert plan_of().newest_batch == 12
    assert plan_of().kafka[0].startswith("Group g has the marker of batch 12, so the sink refuses a new checkpoint.")
    assert plan_of(markers=(-1, -1)).kafka[0].startswith("No batch is committed since the last new checkpoint.")
    assert plan_of(markers=(None, None)).kafka[0] == "Group g has no markers. The command writes them."
    assert plan_of(markers=(None,)).newest_batch == -1


def test_committed_offsets_are_refused_with_state_without_offsets_and_beyond_the_end() -> None:
    def refused(query: RecordedQuery, committed: dict[Partition, int]) -> str | None:
        return committed_refused(query, group_id="g", committed=committed, bounds=BOUNDS)

    stateless = RecordedQuery(has_state=False)
    assert refused(stateless, COMMITTED) is None
    assert refused(RecordedQuery(), COMMITTED) is None
    assert "has state" in (refused(RecordedQuery(has_state=True), COMMITTED) or "")
    assert refused(stateless, {OTHER: 4}) == "Group g has no committed offset of the source topics."
    assert "offset 51 of in-1 is beyond its end 50" in (refused(stateless, {SECOND: 51}) or "")


def test_refusals_have_a_way_out() -> None:
    plan = plan_of(is_open=True)
    (live,) = refusals(plan, live_run="running", members=["flights-0"], definition=PIPELINE)
    assert live == "The run is running. Drain it first: `fenceline runs drain flights`."
    found = refusals(plan, live_run=None, members=["b", "a"], definition=PIPELINE)
    assert found[0] == "Group g has 2 members (a, b). An ended driver leaves within 10 s; stop other members."
    assert found[1].startswith("The transaction of fl.t.flights.0.0 is open. It ends within 10 s, or by `fenceline")
    assert len(found) == 3
    assert refusals(plan_of(), live_run=None, members=[], definition=PIPELINE) == ()


def test_every_sentence_is_short() -> None:
    plan = plan_of(operators=STATE, is_open=True)
    sentences = [*plan.effects, *plan.kafka, *refusals(plan, live_run=None, members=["a"], definition=PIPELINE)]
    for sentence in re.split(r"(?<=\.) ", " ".join(sentences)):
        assert len(sentence.split()) <= 25, sentence


def test_recorded_batch_shows_state_of_the_same_code_only() -> None:
    assert recorded_query(None, is_same_query=True).has_state is None
    assert recorded_query(batch(3), is_same_query=True).has_state is True
    assert recorded_query(batch(3, state_rows=None), is_same_query=True).has_state is False
    other = recorded_query(batch(3), is_same_query=False)
    assert (other.has_state, other.operators) == (None, {"stateStoreSave": 500})
    assert is_same_query(PIPELINE, definition(transform=QUERY))
    assert not is_same_query(PIPELINE, definition())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("file:///srv/flights", "file:///srv/flights-r5"),
        ("file:///srv/flights-r4", "file:///srv/flights-r5"),
        ("s3a://b/flights-2013", "s3a://b/flights-2013-r5"),
    ],
)
def test_suggested_location_has_the_number_of_its_revision(before: str, after: str) -> None:
    assert next_location(before, revision=5) == after


def test_marker_has_one_line_and_the_markers_are_batches_plus_one() -> None:
    assert marker_before_first(writers=2, why=" disk\nlost ") == "fenceline/1 - -1 2 - - disk lost"
    assert len(marker_before_first(writers=2, why="x" * 999)) == len("fenceline/1 - -1 2 - - ") + 200
    markers = markers_of(
        {Partition("out", 2): QueryMarker(7, 3), Partition("other", 0): QueryMarker(9, 1)}, sink_topic="out"
    )
    assert markers == {2: 7}
    assert writer_count(PIPELINE, markers) == 3
    assert writer_count(PIPELINE, {}) == 2
