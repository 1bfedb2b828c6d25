"""Client overrides, Spark conf and masters: accepted values, and the message of each refusal."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from hypothesis import given
from hypothesis import strategies as st

from app.core.allow_lists import client_options, spark_options
from app.core.allow_lists.option_values import OneOf, ValueRule, Whole, unsafe
from app.core.allow_lists.options import (
    canonical,
    check_consumer_overrides,
    check_producer_overrides,
    check_spark_conf,
    check_spark_master,
)
from app.kit.errors import Problem


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def samples(rule: ValueRule) -> list[str]:
    """Values at the edges of a rule."""
    match rule:
        case Whole(least, most):
            return [str(least), str(most)]
        case OneOf(words):
            return list(words)
        case _:
            return ["1"]


def together_with(name: str) -> dict[str, str]:
    """Settings without which librdkafka refuses an extreme value of `name`."""
    return {
        "reconnect.backoff.ms": {"reconnect.backoff.max.ms": "3600000"},
        "reconnect.backoff.max.ms": {"reconnect.backoff.ms": "0"},
        "message.timeout.ms": {"linger.ms": "0"},
    }.get(name, {})


@pytest.mark.parametrize("name", sorted(client_options.CONSUMER))
def test_every_listed_consumer_option_is_one_of_the_installed_librdkafka(name: str) -> None:
    for value in samples(client_options.CONSUMER[name]):
        assert check_consumer_overrides({name: value}) == []
        config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "session.timeout.ms": "1", "log_level": "0"}
        if name == "group.remote.assignor":
            config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
        Consumer({**config, **together_with(name), name: value}).close()


@pytest.mark.parametrize("name", sorted(client_options.PRODUCER))
def test_every_listed_producer_option_is_one_of_the_installed_librdkafka(name: str) -> None:
    for value in samples(client_options.PRODUCER[name]):
        assert check_producer_overrides({name: value}) == []
        config = {"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": "true", "log_level": "0"}
        Producer({**config, **together_with(name), name: value})


@pytest.mark.parametrize("alias", sorted(client_options.ALIASES))
def test_an_alias_is_checked_as_the_option_that_it_names(alias: str) -> None:
    official = client_options.ALIASES[alias]
    in_consumer = official in client_options.CONSUMER
    check = check_consumer_overrides if in_consumer else check_producer_overrides
    rule = (client_options.CONSUMER if in_consumer else client_options.PRODUCER)[official]
    value = samples(rule)[0]

    assert check({alias: value}) == []
    assert only(check({alias: "nonsense"})).field.endswith(alias)
    assert official in only(check({alias: value, official: value})).message
    assert canonical({alias: value}) == {official: value}


@pytest.mark.parametrize("name", sorted(client_options.LOCKED_CONSUMER))
def test_locked_consumer_options_stay_locked_even_if_an_administrator_lists_them(name: str) -> None:
    problem = only(check_consumer_overrides({name: "1"}, also_allowed=[name]))

    assert problem.field == f"consumer_overrides.{name}"
    assert f"`{name}` cannot be set" in problem.message
    assert client_options.LOCKED_CONSUMER[name] in problem.message


@pytest.mark.parametrize("name", sorted(client_options.LOCKED_PRODUCER))
def test_locked_producer_options_stay_locked_even_if_an_administrator_lists_them(name: str) -> None:
    problem = only(check_producer_overrides({name: "1"}, also_allowed=[name]))

    assert f"`{name}` cannot be set" in problem.message
    assert client_options.LOCKED_PRODUCER[name] in problem.message


@pytest.mark.parametrize("name", ["isolation.level", "enable.auto.commit", "group.id"])
def test_the_keys_of_exactly_once_are_locked_in_the_consumer(name: str) -> None:
    assert name in client_options.LOCKED_CONSUMER


@pytest.mark.parametrize("name", ["transactional.id", "enable.idempotence", "acks", "transaction.timeout.ms"])
def test_the_keys_of_exactly_once_are_locked_in_the_producer(name: str) -> None:
    assert name in client_options.LOCKED_PRODUCER


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plugin.library.paths", "loads code or runs commands"),
        ("sasl.kerberos.kinit.cmd", "belongs to the cluster"),
        ("ssl.engine.location", "belongs to the cluster"),
        ("ssl.providers", "belongs to the cluster"),
        ("security.protocol", "belongs to the cluster"),
        ("enable.ssl.certificate.verification", "belongs to the cluster"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "belongs to the cluster"),
        ("error_cb", "a callback"),
    ],
)
def test_an_option_that_loads_code_or_belongs_to_the_cluster_is_refused_for_both_clients(
    name: str, reason: str
) -> None:
    for check in (check_consumer_overrides, check_producer_overrides):
        assert reason in only(check({name: "x"}, also_allowed=[name])).message


def test_an_unlisted_consumer_option_names_the_setting_that_allows_it() -> None:
    problem = only(check_consumer_overrides({"debug": "all"}))

    assert problem.field == "consumer_overrides.debug"
    assert "`debug` is not on the list" in problem.message
    assert "FENCELINE_ALLOWED_CONSUMER_OPTIONS" in problem.message
    assert check_consumer_overrides({"debug": "all"}, also_allowed={"debug"}) == []


def test_an_unlisted_producer_option_names_the_setting_that_allows_it() -> None:
    assert "FENCELINE_ALLOWED_PRODUCER_OPTIONS" in only(check_producer_overrides({"debug": "all"})).message


def test_a_misspelt_option_gets_a_suggestion() -> None:
    assert "did you mean `fetch.min.bytes`?" in only(check_consumer_overrides({"fetch.min.byte": "1"})).message


def test_an_option_of_the_other_client_is_sent_to_its_place() -> None:
    assert "set it under producer_overrides" in only(check_consumer_overrides({"linger.ms": "5"})).message
    assert "set it under consumer_overrides" in only(check_producer_overrides({"fetch.min.bytes": "5"})).message


@pytest.mark.parametrize("value", ["-1", "--conf", "", "  ", "1\n2", "a\x00b", " 5", "x" * 1001])
def test_a_dangerous_value_is_refused_even_for_an_option_that_the_administrator_lists(value: str) -> None:
    assert unsafe(value) is not None
    assert only(check_consumer_overrides({"debug": value}, also_allowed={"debug"})).message.startswith(
        "The consumer option `debug` has"
    )


@given(st.text(max_size=20))
def test_no_value_that_begins_with_a_dash_ever_passes(text: str) -> None:
    value = "-" + text
    assert check_consumer_overrides({"client.rack": value, "debug": value}, also_allowed={"debug"}) != []
    assert len(check_spark_conf({"spark.executor.memoryOverhead": value})) == 1


@pytest.mark.parametrize("value", ["0", "5.5", "five", "1000000000", "٣", "1_000"])
def test_a_whole_number_outside_its_bounds_is_named_with_them(value: str) -> None:
    message = only(check_consumer_overrides({"fetch.min.bytes": value})).message
    assert f"from 1 to 100000000, not `{value}`" in message


def test_a_fetch_queue_backoff_of_zero_is_refused() -> None:
    assert check_consumer_overrides({"fetch.queue.backoff.ms": "0"}) != []


def test_six_requests_in_flight_are_refused_as_idempotence_keeps_the_order_of_five() -> None:
    assert check_producer_overrides({"max.in.flight": "6"}) != []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("spark.executor.memoryOverhead", "384m", "384"),
        ("spark.driver.memory", "1g", "100m"),
        ("spark.network.timeout", "120s", "8s"),
        ("spark.memory.fraction", "0.6", "1.5"),
        ("spark.log.level", "WARN", "LOUD"),
        ("spark.rpc.message.maxSize", "128", "9999"),
    ],
)
def test_spark_values_are_checked(name: str, good: str, bad: str) -> None:
    assert check_spark_conf({name: good}) == []
    problem = only(check_spark_conf({name: bad}))
    assert problem.field == f"spark.conf.{name}"
    assert name in problem.message
    assert f"`{bad}`" in problem.message


@pytest.mark.parametrize("name", sorted(spark_options.LOCKED))
def test_spark_settings_of_fenceline_stay_locked(name: str) -> None:
    message = only(check_spark_conf({name: "1"}, also_allowed=[name])).message
    assert spark_options.LOCKED[name] in message


@pytest.mark.parametrize(
    "name",
    ["spark.speculation", "spark.speculation.quantile", "spark.dynamicAllocation.enabled", "spark.pyspark.python"],
)
def test_a_family_of_spark_keys_is_locked_by_its_beginning(name: str) -> None:
    assert "cannot be set" in only(check_spark_conf({name: "true"}, also_allowed=[name])).message


@pytest.mark.parametrize(
    "name",
    [
        "spark.executor.extraClassPath",
        "spark.jars.packages",
        "spark.plugins",
        "spark.driver.extraClassPath",
        "anything",
    ],
)
def test_a_spark_key_that_runs_code_is_not_listed_and_the_setting_is_named(name: str) -> None:
    message = only(check_spark_conf({name: "x"})).message
    assert f"`{name}` is not on the list" in message
    assert "FENCELINE_ALLOWED_SPARK_CONF" in message
    assert check_spark_conf({name: "x"}, also_allowed=[name]) == []


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[1]",
        "local[16]",
        "spark://127.0.0.1:7077",
        "spark://localhost:7077,localhost:7078",
        "spark://[::1]:1",
    ],
)
def test_masters_on_this_machine_need_no_permission(master: str) -> None:
    assert check_spark_master(master) == []


@pytest.mark.parametrize("master", ["spark://spark.example.org:7077", "spark://127.0.0.1:7077,spark.example.org:7077"])
def test_a_master_elsewhere_needs_the_administrators_list(master: str) -> None:
    problem = only(check_spark_master(master))

    assert problem.field == "spark.master"
    assert f"`{master}` is not on the list" in problem.message
    assert "FENCELINE_ALLOWED_SPARK_MASTERS" in problem.message
    assert check_spark_master(master, also_allowed={master}) == []
    assert check_spark_master(master, also_allowed={"spark://*.example.org:7077"}) == []


def test_a_pattern_does_not_reach_across_the_comma_between_two_masters() -> None:
    master = "spark://elsewhere.net:1,spark.example.org:7077"
    assert only(check_spark_master(master, also_allowed={"spark://*.example.org:7077"})).field == "spark.master"


@pytest.mark.parametrize(
    ("master", "part"),
    [
        ("local[*]", "name the number of cores"),
        ("local[2,4]", "leave the number of retries out"),
        ("local[0]", "name the number of cores"),
        ("spark://", "write `spark://host:port`"),
        ("spark://host", "write `spark://host:port`"),
        ("spark://host:70000", "write `spark://host:port`"),
        ("spark://-host:7077", "write `spark://host:port`"),
        ("spark://host:7077,", "write `spark://host:port`"),
        ("k8s://https://example.org:443", "Kubernetes is not supported yet"),
        ("yarn", "YARN is not supported yet"),
        ("mesos://x", "not a Spark master that Fenceline supports"),
        ("--master", "not a Spark master that Fenceline supports"),
        ("local\n", "not a Spark master that Fenceline supports"),
        ("", "not a Spark master that Fenceline supports"),
    ],
)
def test_a_master_of_another_form_is_refused_with_the_forms_that_work(master: str, part: str) -> None:
    assert part in only(check_spark_master(master, also_allowed={"*"})).message
