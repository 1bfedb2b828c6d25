"""A fatal consumer ends its attempt: it would deliver nothing any more, and report no reason."""

from __future__ import annotations

from app.core.pipelines.pipeline import GroupProtocol
from tests.exactly_once.conftest import MakePipeline
from tests.support.tasks import TaskThread, running
from workers.loop.errors import TaskFailedError

STATIC = {"group.instance.id": "one"}


def test_member_that_the_group_refuses_for_good_fails_its_attempt(make_pipeline: MakePipeline) -> None:
    """As with two members of one name in a KIP-848 group."""
    pipeline = make_pipeline(partitions=2, group_protocol=GroupProtocol.CONSUMER, consumer_overrides=STATIC)
    with running(pipeline.specification()) as first:
        first.wait_for_partitions(2)
        error = TaskThread(pipeline.specification(task=1)).start().join_error()
        assert isinstance(error, TaskFailedError)
        assert "instance ID" in str(error)
        first.drain()
