"""The polls while nothing is open, without a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import DesiredTaskState
from tests.workers.loop.many_lanes import Looks, Many
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.records.polled import PolledMessages, Records

Poll = tuple[int, float]


def polls(monkeypatch: pytest.MonkeyPatch, *, with_record: set[int], count: int) -> list[Poll]:
    """The polls of the loop, as (records, seconds), with a commit each second; every poll takes all of its time.

    with_record: the numbers of the polls that are answered with a record.
    """
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    asked: list[Poll] = []

    def consume(records: int, timeout_s: float) -> tuple[Records, list[KafkaError]]:
        asked.append((records, round(timeout_s, 3)))
        many.clock[0] += timeout_s
        if len(asked) == count:
            many.control.wanted = DesiredTaskState.DRAIN
        if len(asked) - 1 not in with_record:
            return PolledMessages(), []
        many.group.at = {Partition("t", 0): len(asked)}
        return PolledMessages([Message(topic="t", partition=0, offset=len(asked) - 1, value=b"x")]), []

    def no_look(_membership: object) -> None:
        """There is no client to ask."""

    monkeypatch.setattr(many.group, "consume", consume)
    monkeypatch.setattr(many.progress, "look", no_look)
    many.loop(starting=Looks()).run(["t"])
    return asked


def test_right_after_a_commit_records_are_gathered_and_the_interval_counts_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = polls(monkeypatch, with_record={0, 6}, count=12)
    assert [timeout_s for _, timeout_s in asked[:6]] == [0.1, 0.2, 0.2, 0.2, 0.2, 0.2]
    gathering = asked[6]
    assert gathering[0] > 1, "a full batch does not wait"
    assert gathering[1] == 0.01
    assert [timeout_s for _, timeout_s in asked[7:]] == [0.2, 0.2, 0.2, 0.2, 0.19]


def test_when_nothing_came_right_after_a_commit_the_next_record_is_taken_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = polls(monkeypatch, with_record={0, 7}, count=9)
    assert asked[0] == (1, 0.1)
    assert [timeout_s for _, timeout_s in asked[6:8]] == [0.01, 0.1]
    assert asked[7][0] == 1
    assert asked[8][1] == 0.2, "a record that was not gathered has all of the interval"
