"""The advice of a survey: none for a good setting, else how to change it."""

from __future__ import annotations

import pytest

from app.core.clusters.survey import (
    GROUP_SESSION,
    SETTINGS,
    Feature,
    Survey,
    SurveyedBroker,
    feature_lines,
    longest_ms,
    setting_lines,
)

SOUND = {
    "group.consumer.session.timeout.ms": "45000",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transactional.id.expiration.ms": "604800000",
    "producer.id.expiration.ms": "86400000",
    "offsets.retention.minutes": "10080",
    "transaction.partition.verification.enable": "true",
    "transaction.two.phase.commit.enable": "false",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}
"""As a new cluster of Kafka's own defaults has them."""


def survey(*settings: dict[str, str] | None, features: tuple[Feature, ...] = ()) -> Survey:
    brokers = tuple(
        SurveyedBroker(
            id=number,
            host="h",
            port=9092,
            is_controller=number == 1,
            version=(4, 3),
            settings=None if one is None else one,
        )
        for number, one in enumerate(settings, 1)
    )
    return Survey(cluster_id="c", brokers=brokers, features=features)


def advice(found: Survey) -> dict[str, str]:
    return {line.name: line.advice for line in setting_lines(found) if line.advice}


def test_cluster_with_kafkas_own_settings_needs_no_advice() -> None:
    found = survey(SOUND, SOUND, SOUND)
    assert set(SOUND) == set(SETTINGS)
    assert advice(found) == {}
    assert {line.name: line.values for line in setting_lines(found)} == {name: (SOUND[name],) for name in SETTINGS}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("transaction.max.timeout.ms", "3600000", "15 minutes"),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "60000", "Kafka's default is 10,000 ms"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", "864000000", "Ids stay in memory"),
        ("transactional.id.expiration.ms", "3600000", "loses its ids and their epochs"),
        ("transactional.id.expiration.ms", "172800000", "Committed offsets live longer"),
        ("producer.id.expiration.ms", "60000", "longer than any open transaction"),
        ("offsets.retention.minutes", "1440", "begins again at its start position"),
        ("transaction.partition.verification.enable", "false", "Switch it on"),
        ("transaction.two.phase.commit.enable", "true", "until an operator ends it"),
        ("transaction.state.log.replication.factor", "1", "With 3 brokers use three replicas"),
        ("transaction.state.log.min.isr", "1", "lost with it"),
        ("unclean.leader.election.enable", "true", "drops committed records"),
    ],
)
def test_setting_that_is_not_as_it_should_be_has_advice(name: str, value: str, says: str) -> None:
    odd = {**SOUND, name: value}
    assert says in advice(survey(odd, odd, odd))[name]


def test_single_broker_is_not_asked_for_more_replicas_than_it_can_have() -> None:
    alone = {**SOUND, "offsets.topic.replication.factor": "1"}
    assert "fewer than three brokers" in advice(survey(alone))["offsets.topic.replication.factor"]


def test_brokers_that_differ_are_named_as_such() -> None:
    odd = {**SOUND, "transaction.max.timeout.ms": "3600000"}
    (line,) = [line for line in setting_lines(survey(SOUND, odd)) if line.name == "transaction.max.timeout.ms"]
    assert line.values == ("3600000", "900000")
    assert line.advice.startswith("The brokers differ")
    assert line.advice.count("15 minutes") == 1


def test_unreported_setting_has_no_value_and_no_advice() -> None:
    for found in (survey(None), survey({})):
        assert all(line.values == () and not line.advice for line in setting_lines(found))


def test_value_that_is_no_number_is_shown_without_advice() -> None:
    assert "transaction.max.timeout.ms" not in advice(survey({**SOUND, "transaction.max.timeout.ms": "long"}))


def test_features_say_how_to_get_what_is_missing() -> None:
    found = survey(
        SOUND,
        features=(
            Feature(name="group.version", level=1, newest=1),
            Feature(name="share.version", level=1, newest=1),
            Feature(name="transaction.version", level=0, newest=2),
        ),
    )
    lines = {line.feature.name: line.advice for line in feature_lines(found)}
    assert lines["group.version"] == ""
    assert "--feature transaction.version=2" in lines["transaction.version"]
    assert "share.version" not in lines
    assert feature_lines(survey(SOUND)) == ()


def test_longest_time_of_any_broker_counts_and_none_without_an_answer() -> None:
    short, long = {GROUP_SESSION: "10000"}, {GROUP_SESSION: "45000"}
    assert longest_ms(survey(short, long), GROUP_SESSION) == 45_000
    assert longest_ms(survey(short, None), GROUP_SESSION) is None
    assert longest_ms(survey(short, {}), GROUP_SESSION) is None
    assert longest_ms(survey(), GROUP_SESSION) is None
