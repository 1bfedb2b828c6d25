"""A source topic that is deleted and recreated before its consumers learn of it is another topic."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import GroupProtocol
from app.core.wire.heartbeat import EventKind
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.topics import create_topic, delete_topics
from workers.loop.errors import PipelineStopError
from workers.loop.group.source_topics import SourceTopics


def read_then_make_anew(pipeline: TestPipeline, task: TaskThread) -> None:
    """The new topic is longer than the old one was: the old position lies in the midst of it."""
    pipeline.feed(100)
    task.wait_for_records(100)
    delete_topics(pipeline.bootstrap_servers, [pipeline.source])
    create_topic(pipeline.bootstrap_servers, pipeline.source)
    pipeline.feed(300)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_topic_recreated_unnoticed_stops_the_pipeline(make_pipeline: MakePipeline, protocol: GroupProtocol) -> None:
    """A KIP-848 group may have taken the old partitions away already, and given the new ones at the old offset."""
    pipeline = make_pipeline(partitions=1, group_protocol=protocol)
    with running(pipeline.specification()) as task:
        read_then_make_anew(pipeline, task)
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source} was deleted and recreated while it was read" in str(error)


def test_without_a_check_of_its_id_records_below_the_old_position_are_lost_undetected(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def look_away(_self: SourceTopics) -> None:
        """In place of the check."""

    monkeypatch.setattr(SourceTopics, "look", look_away)
    pipeline = make_pipeline(partitions=1)
    with running(pipeline.specification()) as task:
        read_then_make_anew(pipeline, task)
        task.wait_for_records(300)
        task.drain()
    assert len(pipeline.audit().lost) == 100
    assert EventKind.ERROR not in task.control.kinds()


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_topic_that_is_deleted_under_a_task_is_reported(make_pipeline: MakePipeline, protocol: GroupProtocol) -> None:
    pipeline = make_pipeline(partitions=1, group_protocol=protocol)
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        delete_topics(pipeline.bootstrap_servers, [pipeline.source])
        task.wait_for_event(EventKind.ERROR)
        assert any(f"there is no topic {pipeline.source}" in event.message for event in task.control.events)
        task.drain()
