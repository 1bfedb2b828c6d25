"""Every producer and admin client is set to create no topic; librdkafka lets brokers create one by default."""

from __future__ import annotations

import ast
from collections.abc import Generator
from pathlib import Path

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.pipelines.pipeline import PipelineDefinition
from tests.support.quiet import QUIET
from workers.loop.client_config import (
    admin_config,
    consumer_config,
    idempotent_producer_config,
    reader_config,
    transactional_producer_config,
)
from workers.loop.control import TaskSpecification

ROOT = Path(__file__).parents[2]
LIBRDKAFKA = {"Producer", "AdminClient"}
OF_A_TASK = {
    "workers/loop/group/source_topics.py",
    "workers/loop/producing/idempotent_producer.py",
    "workers/loop/producing/transactional_producer.py",
}
"""These are given what workers/loop/client_config.py makes."""


def makers() -> Generator[tuple[str, str]]:
    """Each module that makes such a client, with its text."""
    for path in sorted([*(ROOT / "app").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        if any(isinstance(call.func, ast.Name) and call.func.id in LIBRDKAFKA for call in calls):
            yield path.relative_to(ROOT).as_posix(), text


def test_every_module_that_makes_a_client_locks_it() -> None:
    found = dict(makers())
    assert found.keys() >= OF_A_TASK
    unlocked = [name for name, text in found.items() if "**NEVER_CREATE_TOPICS" not in text]
    assert set(unlocked) == OF_A_TASK


def test_a_task_s_clients_are_locked_against_the_clusters_settings() -> None:
    specification = TaskSpecification(
        pipeline="p",
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        definition=PipelineDefinition(cluster="c", source_topics=("in",), sink_topic="out", group_id="g"),
        client_config={"allow.auto.create.topics": "true"},
        transactional_id="fl.t.p.0.0",
    )
    for make in (consumer_config, reader_config, admin_config, idempotent_producer_config):
        assert NEVER_CREATE_TOPICS.items() <= make(specification).items(), make.__name__
    assert NEVER_CREATE_TOPICS.items() <= transactional_producer_config(specification).items()


def test_so_are_those_of_the_tests() -> None:
    assert NEVER_CREATE_TOPICS.items() <= QUIET.items()
