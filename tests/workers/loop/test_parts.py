"""The loop's parts that need no broker: each promise once."""

from __future__ import annotations

import sys
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition, ProcessingGuarantee, StartPosition
from workers.loop.client_config import consumer_config, idempotent_producer_config, transactional_producer_config
from workers.loop.control import TaskSpecification
from workers.loop.errors import (
    AbortableError,
    ErrorSeverity,
    FatalError,
    FencedError,
    RefusedError,
    RetriableError,
    kafka_call,
    severity,
)
from workers.loop.group.membership import generation_of
from workers.loop.group.ownership import Ownership
from workers.loop.records.batching import MAX_RECORDS, BatchSize
from workers.loop.slices import CallPatience, CommitBounds, in_slices
from workers.loop.telling.latency import LatencyWindow
from workers.loop.telling.tally import WorkTally


class TestOwnership:
    def test_number_grows_with_every_assign_and_every_way_of_giving_up(self) -> None:
        ownership = Ownership()
        numbers = [ownership.number(Partition("t", 0))]
        for change in (ownership.assigned, ownership.given_up, ownership.assigned):
            change([Partition("t", 0)])
            numbers.append(ownership.number(Partition("t", 0)))
        assert numbers == sorted(set(numbers))

    def test_partition_that_went_and_came_back_has_changed(self) -> None:
        ownership = Ownership()
        ownership.assigned([Partition("t", 0), Partition("t", 1)])
        polled_under = {name: ownership.number(name) for name in ownership.owned}
        assert ownership.changed_among(polled_under) == []
        ownership.given_up([Partition("t", 1)])
        ownership.assigned([Partition("t", 1)])
        assert ownership.owned == {Partition("t", 0), Partition("t", 1)}
        assert ownership.changed_among(polled_under) == [Partition("t", 1)]

    def test_partition_that_is_gone_has_changed_under_every_number(self) -> None:
        ownership = Ownership()
        ownership.assigned([Partition("t", 0)])
        ownership.given_up([Partition("t", 0)])
        assert not ownership.is_unchanged(Partition("t", 0), ownership.number(Partition("t", 0)))

    def test_assigning_others_changes_nothing_for_those_that_stay(self) -> None:
        ownership = Ownership()
        ownership.assigned([Partition("t", 0)])
        number = ownership.number(Partition("t", 0))
        ownership.assigned([Partition("t", 1)])
        ownership.given_up([Partition("t", 1)])
        assert ownership.is_unchanged(Partition("t", 0), number)


class TestSlices:
    def test_call_is_repeated_in_slices_until_it_succeeds(self) -> None:
        slices: list[float] = []
        between: list[int] = []

        def call(timeout_s: float) -> None:
            slices.append(timeout_s)
            if len(slices) < 3:
                raise RetriableError("not yet")

        ticks = count()
        in_slices(call, CallPatience(10.0, lambda: between.append(1)), clock=lambda: next(ticks) * 0.1)
        assert len(slices) == 3
        assert max(slices) <= 1.0
        assert len(between) == 2

    def test_bound_ends_the_repetition_with_the_last_error(self) -> None:
        ticks = count()
        calls = count()

        def call(_timeout_s: float) -> None:
            raise RetriableError(f"call {next(calls)}")

        with pytest.raises(RetriableError, match="call 3"):
            in_slices(call, CallPatience(8.0), clock=lambda: next(ticks))

    def test_error_that_comes_at_once_is_not_asked_for_as_fast_as_it_comes(self) -> None:
        now = 0.0
        pauses: list[float] = []
        calls: list[float] = []

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            pauses.append(seconds)

        def call(_timeout_s: float) -> None:
            nonlocal now
            now += 0.001
            calls.append(now)
            raise RetriableError("the coordinator moves")

        with pytest.raises(RetriableError):
            in_slices(call, CallPatience(3.0), clock=lambda: now, sleep=sleep)
        assert len(calls) < 25
        assert pauses[0] < 0.05, "most moves take a few milliseconds"
        assert 3.0 <= now < 3.1

    def test_other_errors_end_it_at_once(self) -> None:
        def call(_timeout_s: float) -> None:
            raise AbortableError("no use")

        with pytest.raises(AbortableError):
            in_slices(call, CallPatience(60.0))


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (KafkaError(KafkaError._FENCED, fatal=True), ErrorSeverity.FENCED),
            (KafkaError(KafkaError.PRODUCER_FENCED), ErrorSeverity.FENCED),
            (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, txn_requires_abort=True), ErrorSeverity.FENCED),
            (KafkaError(KafkaError.INVALID_TXN_STATE, fatal=True), ErrorSeverity.FATAL),
            (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, txn_requires_abort=True), ErrorSeverity.REFUSED),
            (KafkaError(KafkaError.UNKNOWN_MEMBER_ID, txn_requires_abort=True), ErrorSeverity.ABORTABLE),
            (KafkaError(KafkaError.ILLEGAL_GENERATION), ErrorSeverity.ABORTABLE),
            (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, txn_requires_abort=True), ErrorSeverity.ABORTABLE),
            (KafkaError(KafkaError._TIMED_OUT, retriable=True), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError._TIMED_OUT), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError._MSG_TIMED_OUT), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError.OFFSET_NOT_AVAILABLE), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError._DESTROY_BROKER), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError._DESTROY), ErrorSeverity.FATAL),
            (KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), ErrorSeverity.RETRIABLE),
            (KafkaError(KafkaError._INVALID_DIFFERENT_RECORD), ErrorSeverity.REFUSED),
            (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), ErrorSeverity.FATAL),
            (KafkaError(KafkaError._STATE), ErrorSeverity.FATAL),
        ],
    )
    def test_errors_are_sorted_in_one_place(self, error: KafkaError, expected: ErrorSeverity) -> None:
        assert severity(error) is expected

    @pytest.mark.parametrize(
        ("code", "raised"),
        [
            (KafkaError._FENCED, FencedError),
            (KafkaError.MSG_SIZE_TOO_LARGE, RefusedError),
            (KafkaError._TIMED_OUT, RetriableError),
            (KafkaError._STATE, FatalError),
        ],
    )
    def test_border_lets_only_our_types_through_and_names_the_call(self, code: int, raised: type[Exception]) -> None:
        with pytest.raises(raised, match="could not count the sheep"), kafka_call("count the sheep"):
            raise KafkaException(KafkaError(code))

    @pytest.mark.parametrize(
        ("code", "keeps"),
        [
            (None, True),
            (KafkaError.ILLEGAL_GENERATION, True),
            (KafkaError.UNKNOWN_MEMBER_ID, True),
            (KafkaError._TIMED_OUT, False),
            (KafkaError._INCONSISTENT, False),
            (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, False),
        ],
    )
    def test_producer_is_kept_only_if_nothing_of_it_can_still_be_on_its_way(
        self, code: int | None, keeps: bool
    ) -> None:
        assert AbortableError("x", code=code).keeps_producer is keeps


class TestBatchSize:
    def test_grows_to_its_maximum_while_batches_are_small_and_quick(self) -> None:
        size = BatchSize(target_s=0.1)
        for _ in range(10):
            size.processed(records=size.count, size_bytes=100 * size.count, seconds=1e-6 * size.count)
        assert size.count == MAX_RECORDS

    def test_large_records_come_a_few_at_a_time(self) -> None:
        size = BatchSize(target_s=0.1)
        for _ in range(10):
            size.processed(records=size.count, size_bytes=1024 * 1024 * size.count, seconds=0.001)
        assert size.count == 4

    def test_slow_records_come_one_at_a_time(self) -> None:
        size = BatchSize(target_s=0.1)
        size.processed(records=16, size_bytes=1600, seconds=16.0)
        assert size.count == 1

    @given(st.lists(st.tuples(st.integers(1, 2_000), st.integers(0, 10**9), st.floats(0, 100)), max_size=20))
    def test_is_always_at_least_one_and_at_most_the_maximum(self, batches: list[tuple[int, int, float]]) -> None:
        size = BatchSize(target_s=0.1)
        for records, size_bytes, seconds in batches:
            size.processed(records=records, size_bytes=size_bytes, seconds=seconds)
            assert 1 <= size.count <= MAX_RECORDS
            assert size.count <= size.ahead

    @pytest.mark.parametrize(
        ("record_bytes", "record_s", "ahead"),
        [(100, 1e-6, 16_000), (1_000, 1e-6, 4_194), (2_000, 1e-6, 2_097), (100, 20e-6, 5_000), (100, 50e-6, 2_000)],
    )
    def test_polls_ahead_are_bounded_by_bytes_and_time(self, record_bytes: int, record_s: float, ahead: int) -> None:
        size = BatchSize(target_s=0.1)
        for _ in range(10):
            size.processed(records=size.count, size_bytes=record_bytes * size.count, seconds=record_s * size.count)
        assert size.count == MAX_RECORDS
        assert size.ahead == pytest.approx(ahead, abs=1)


class TestBounds:
    def test_on_revoke_a_third_of_what_is_left_until_max_poll(self) -> None:
        bounds = CommitBounds(transaction_timeout_s=60.0, max_poll_interval_s=30.0)
        assert bounds.on_revoke_s(since_poll_s=0.0) == 10.0
        assert bounds.on_revoke_s(since_poll_s=15.0) == 5.0

    def test_never_longer_than_the_transaction_lives_nor_less_than_a_slice(self) -> None:
        bounds = CommitBounds(transaction_timeout_s=10.0, max_poll_interval_s=300.0)
        assert bounds.on_revoke_s(since_poll_s=0.0) == 10.0
        assert bounds.on_revoke_s(since_poll_s=299.9) == 1.0


class TestLatencyAndTally:
    def test_quantiles_are_of_the_durations_seen(self) -> None:
        window = LatencyWindow()
        assert window.quantile_ms(0.5) is None
        for milliseconds in range(1, 101):
            window.add(milliseconds / 1000)
        assert window.quantile_ms(0.5) == 51.0
        assert window.quantile_ms(0.99) == 100.0

    def test_work_counts_when_it_is_committed(self) -> None:
        tally = WorkTally()
        tally.open.records_in = 5
        tally.aborted()
        tally.open.records_in = 7
        sent = tally.open
        tally.begin()
        tally.open.records_in = 9
        assert tally.counters().records_in == 0
        tally.committed(sent)
        counters = tally.counters()
        assert (counters.records_in, counters.transactions_committed, counters.transactions_aborted) == (7, 1, 1)


def specification(**changes: object) -> TaskSpecification:
    definition = PipelineDefinition(
        cluster="c",
        source_topics=("in",),
        group_id="g",
        sink_topic="out",
        **changes,  # type: ignore[arg-type]
    )
    return TaskSpecification(
        pipeline="p",
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        definition=definition,
        client_config={"bootstrap.servers": "broker:9092", "isolation.level": "read_uncommitted"},
        transactional_id="fl.t.p.0.0",
    )


class TestClientConfig:
    def test_settings_for_correctness_cannot_be_overridden(self) -> None:
        chosen = specification(
            consumer_overrides={"isolation.level": "read_uncommitted", "enable.auto.commit": "true", "group.id": "x"},
            producer_overrides={"acks": "1", "enable.idempotence": "false", "transactional.id": "x"},
        )
        consumer, producer = consumer_config(chosen), transactional_producer_config(chosen)
        assert consumer["isolation.level"] == "read_committed"
        assert consumer["enable.auto.commit"] is False
        assert consumer["group.id"] == "g"
        assert producer["acks"] == "all"
        assert producer["enable.idempotence"] is True
        assert producer["transactional.id"] == "fl.t.p.0.0"

    def test_settings_for_speed_can(self) -> None:
        chosen = specification(consumer_overrides={"fetch.wait.max.ms": "500"}, producer_overrides={"linger.ms": "50"})
        assert consumer_config(chosen)["fetch.wait.max.ms"] == "500"
        assert idempotent_producer_config(chosen)["linger.ms"] == "50"
        assert "transactional.id" not in idempotent_producer_config(chosen)

    def test_outputs_of_a_producer_for_each_partition_wait_for_the_flush_unless_it_is_overridden(self) -> None:
        """Many clients that spin take the broker's cores: tests/exactly_once/test_spinning_client.py."""
        of_each = specification(processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
        lingers_ms = transactional_producer_config(of_each, transactional_id="fl.p.g.t.0")["linger.ms"]
        assert of_each.definition.commit_interval_ms < int(lingers_ms) < 1_000, "the shortest message.timeout.ms"
        assert transactional_producer_config(specification())["linger.ms"] == 5
        chosen = specification(
            processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE, producer_overrides={"linger.ms": "1"}
        )
        assert transactional_producer_config(chosen, transactional_id="fl.p.g.t.0")["linger.ms"] == "1"

    def test_kip_848_groups_leave_session_and_assignor_to_the_broker(self) -> None:
        consumer = consumer_config(specification(group_protocol=GroupProtocol.CONSUMER))
        assert consumer["group.protocol"] == "consumer"
        assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & set(consumer)

    def test_classic_groups_are_cooperative(self) -> None:
        consumer = consumer_config(specification(start_position=StartPosition.LATEST))
        assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
        assert consumer["auto.offset.reset"] == "error"

    @pytest.mark.parametrize(("session_ms", "heartbeat_ms"), [(2_000, 500), (4_000, 1_000), (45_000, 1_000), (1, 1)])
    def test_classic_members_learn_of_a_rebalance_within_a_second(self, session_ms: int, heartbeat_ms: int) -> None:
        consumer = consumer_config(specification(session_timeout_ms=session_ms))
        assert consumer["heartbeat.interval.ms"] == heartbeat_ms


@pytest.mark.parametrize("generation", [-1, 0, 41])
def test_generation_is_read_from_the_serialized_group_metadata(generation: int) -> None:
    written = b"CGMDv2:" + generation.to_bytes(4, sys.byteorder, signed=True) + b"group\0member\0\1"
    assert generation_of(written) == generation
    assert generation_of(b"CGMDv3:whatever") is None
