"""Options that the allow-lists accept reach the clients and Spark; locked ones are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.allow_lists import client_options, spark_options
from app.core.allow_lists.options import check_consumer_overrides, check_producer_overrides, check_spark_conf
from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition, SparkSettings
from app.edges.spark.conf import effective
from tests.support.definitions import a_definition
from workers.loop.client_config import consumer_config, idempotent_producer_config, transactional_producer_config
from workers.loop.control import TaskSpecification

MARK = "1234567"


def specification(definition: PipelineDefinition) -> TaskSpecification:
    return TaskSpecification(
        pipeline="p",
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        definition=definition,
        client_config={"bootstrap.servers": "127.0.0.1:1"},
        transactional_id="fl.t.p.0.0",
    )


def consumers(overrides: dict[str, str]) -> list[dict[str, Any]]:
    return [
        consumer_config(specification(a_definition(consumer_overrides=overrides, group_protocol=protocol)))
        for protocol in GroupProtocol
    ]


def producers(overrides: dict[str, str]) -> list[dict[str, Any]]:
    chosen = specification(a_definition(producer_overrides=overrides))
    return [transactional_producer_config(chosen), idempotent_producer_config(chosen)]


def spark(conf: dict[str, str], *, master: str = "spark://far.example.org:7077") -> dict[str, str]:
    definition = a_definition(spark=SparkSettings(master=master, conf=conf))
    python = "/usr/bin/python3"
    submission = effective(definition, application_name="a", python=python, driver_python=python, local_dir="/nowhere")
    return submission.conf


@pytest.mark.parametrize("name", sorted(client_options.CONSUMER))
def test_an_accepted_consumer_option_reaches_the_consumer(name: str) -> None:
    assert all(config[name] == MARK for config in consumers({name: MARK}))


@pytest.mark.parametrize("name", sorted(client_options.PRODUCER))
def test_an_accepted_producer_option_reaches_the_producers(name: str) -> None:
    assert all(config[name] == MARK for config in producers({name: MARK}))


@pytest.mark.parametrize("name", sorted(spark_options.CONF))
def test_an_accepted_spark_key_reaches_the_submission(name: str) -> None:
    assert spark({name: MARK})[name] == MARK


def test_an_override_that_the_loop_sets_itself_is_refused_and_not_ignored() -> None:
    for configs, check in ((consumers, check_consumer_overrides), (producers, check_producer_overrides)):
        names = {name for config in configs({}) for name in config} - {"bootstrap.servers"}
        overridden = {name for name in names for config in configs({name: MARK}) if config.get(name, MARK) != MARK}
        assert overridden
        for name in overridden:
            (problem,) = check({name: "1"}, also_allowed=[name])
            assert f"`{name}` cannot be set" in problem.message


def test_a_key_that_a_submission_sets_itself_is_refused_and_not_ignored() -> None:
    overridden = {name for name in spark({}) if spark({name: MARK})[name] != MARK}
    assert "spark.cores.max" in overridden
    for name in overridden:
        (problem,) = check_spark_conf({name: "1"}, also_allowed=[name])
        assert f"`{name}` cannot be set" in problem.message
