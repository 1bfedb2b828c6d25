"""A survey of a cluster, broker by broker, with its consequences for transactions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class SurveyedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """host, port: as advertised. version: (major, minor) by its API versions; None: no answer came.

    settings: those of SETTINGS that it has; None: it did not answer, or they may not be read.
    """

    id: int
    host: str
    port: int
    is_controller: bool
    version: tuple[int, int] | None
    settings: dict[str, str] | None


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature of the cluster: level 0 is off. newest: the highest level that its brokers support."""

    name: str
    level: int
    newest: int | None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """features: those that its brokers support, by name."""

    cluster_id: str
    brokers: tuple[SurveyedBroker, ...]
    features: tuple[Feature, ...]


class SettingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the brokers. values: one if all have the same, more if they differ; empty: none reports it.

    meaning: its effect on transactions. advice: empty if there is none.
    """

    name: str
    values: tuple[str, ...]
    meaning: str
    advice: str


class FeatureLine(msgspec.Struct, frozen=True, kw_only=True):
    feature: Feature
    meaning: str
    advice: str


GROUP_SESSION = "group.consumer.session.timeout.ms"
ID_EXPIRATION = "transactional.id.expiration.ms"
ABORT_SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"

_Values = dict[str, list[str]]
_Judge = Callable[[str, _Values, int], str]

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_MAX_TIMEOUT_MS = 15 * _MINUTE_MS
_LOOK_EVERY_MS = 10_000
_REPLICAS = 3


def setting_lines(survey: Survey) -> tuple[SettingLine, ...]:
    """Return every setting that matters for transactions, with advice if the cluster's value needs it."""
    values: _Values = {
        name: sorted(
            {broker.settings[name] for broker in survey.brokers if broker.settings and name in broker.settings}
        )
        for name in SETTINGS
    }
    lines: list[SettingLine] = []
    for name, (meaning, judge) in SETTINGS.items():
        found = values[name]
        advice = " ".join(dict.fromkeys(said for value in found if (said := judge(value, values, len(survey.brokers)))))
        if len(found) > 1:
            advice = f"The brokers differ, and any of them may be the coordinator. {advice}".strip()
        lines.append(SettingLine(name=name, values=tuple(found), meaning=meaning, advice=advice))
    return tuple(lines)


def longest_ms(survey: Survey, setting: str) -> int | None:
    """Return the longest time that any broker has for it, since any may be the coordinator; None if one has none."""
    values = [_number((broker.settings or {}).get(setting, "")) for broker in survey.brokers]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def feature_lines(survey: Survey) -> tuple[FeatureLine, ...]:
    """Return the features that matter for transactions, those with advice first."""
    known = {feature.name: feature for feature in survey.features}
    return tuple(
        FeatureLine(
            feature=known[name], meaning=meaning, advice=upgrade if 0 <= known[name].level < wanted and upgrade else ""
        )
        for name, (meaning, wanted, upgrade) in _FEATURES.items()
        if name in known
    )


def _longer_than(limit_ms: int, advice: str) -> _Judge:
    return lambda value, _, __: advice if (_number(value) or 0) > limit_ms else ""


def _shorter_than(limit: int, advice: str) -> _Judge:
    return lambda value, _, __: advice if 0 <= (_number(value) or 0) < limit else ""


def _either(_: str, __: _Values, ___: int) -> str:
    return ""


def _is(unwanted: str, advice: str) -> _Judge:
    return lambda value, _, __: advice if value.lower() == unwanted else ""


def _fewer_replicas(value: str, _: _Values, brokers: int) -> str:
    replicas = _number(value)
    if replicas is None or replicas >= _REPLICAS:
        return ""
    if brokers < _REPLICAS:
        return "A cluster with fewer than three brokers cannot have more; the loss of one broker may lose this topic."
    return f"With {brokers} brokers use three replicas: a loss of this topic loses all of its state."


def _few_in_sync(value: str, values: _Values, _: int) -> str:
    replicas = min((_number(one) or 0 for one in values["transaction.state.log.replication.factor"]), default=0)
    if (_number(value) or 0) >= 2 or replicas < 2:
        return ""
    return "With 1 a record may be acknowledged by one broker only, and lost with it."


def _forgotten_before_groups(value: str, values: _Values, _: int) -> str:
    expiration_ms = _number(value)
    if expiration_ms is None:
        return ""
    if expiration_ms < _DAY_MS:
        return (
            "A pipeline without transactions for longer loses its ids and their epochs, and with them the fencing of "
            "older producers. Use a week."
        )
    retention = max((_number(one) or 0 for one in values["offsets.retention.minutes"]), default=0) * _MINUTE_MS
    if retention > expiration_ms:
        return "Committed offsets live longer than the ids that wrote them: use the same time for the ids."
    return ""


def _number(value: str) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None


SETTINGS: dict[str, tuple[str, _Judge]] = {
    GROUP_SESSION: (
        "The session timeout of members of KIP-848 groups, unless the group has its own.",
        _either,
    ),
    "transaction.max.timeout.ms": (
        "The longest `transaction.timeout.ms` of a producer: a dead producer may block consumers that long.",
        _longer_than(
            _MAX_TIMEOUT_MS,
            "That is more than Kafka's default of 15 minutes: a dead producer can block consumers that long.",
        ),
    ),
    ABORT_SWEEP: (
        "The interval of the coordinator's check for timed-out transactions, which may end that much later (KIP-447).",
        _longer_than(
            _LOOK_EVERY_MS,
            "After a producer has died, consumers are blocked that much longer. Kafka's default is 10,000 ms.",
        ),
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "The interval at which the coordinator removes ids unused for `transactional.id.expiration.ms`.",
        _longer_than(_DAY_MS, "Ids stay in memory for longer than they should."),
    ),
    ID_EXPIRATION: (
        "An id unused for this time is removed, with its producer id and epoch.",
        _forgotten_before_groups,
    ),
    "producer.id.expiration.ms": (
        "A partition forgets a producer that wrote nothing for this time, and no longer detects its duplicates.",
        _shorter_than(_MAX_TIMEOUT_MS, "It should be longer than any open transaction; Kafka's default is a day."),
    ),
    "offsets.retention.minutes": (
        "A group without members keeps its committed offsets for this time.",
        _shorter_than(
            7 * 24 * 60,
            "A pipeline that is stopped for longer begins again at its start position: records are read again "
            "or skipped. Kafka's default is a week.",
        ),
    ),
    "transaction.partition.verification.enable": (
        "A leader asks the coordinator before it accepts the first record of a transaction (KIP-890).",
        _is(
            "false",
            "Without it a late record opens a hanging transaction. Switch it on.",
        ),
    ),
    "transaction.two.phase.commit.enable": (
        "Producers may have transactions without a timeout (KIP-939).",
        _is("true", "A producer that dies with such a transaction blocks readers until an operator ends it."),
    ),
    "transaction.state.log.replication.factor": (
        "Replicas of `__transaction_state`, which has the state of every transaction.",
        _fewer_replicas,
    ),
    "transaction.state.log.min.isr": ("In-sync replicas required for a write.", _few_in_sync),
    "offsets.topic.replication.factor": (
        "Replicas of `__consumer_offsets`, which has the committed offsets of every group.",
        _fewer_replicas,
    ),
    "unclean.leader.election.enable": (
        "Allow out-of-sync replicas to become leader.",
        _is("true", "Such a leader drops committed records, and markers of transactions with them."),
    ),
}
"""By name: the meaning, and the advice for a value. Only these are read from a cluster and shown."""

_FEATURES: dict[str, tuple[str, int, str]] = {
    "transaction.version": (
        "2: an epoch for each transaction (KIP-890), so that no late record can get into the next one.",
        2,
        "Once all brokers are of 4.0 or later: `kafka-features.sh upgrade --feature transaction.version=2`.",
    ),
    "group.version": (
        "1: groups of KIP-848, which rebalance without stopping all members.",
        1,
        "Pipelines need it for `group_protocol: consumer`: `kafka-features.sh upgrade --feature group.version=1`.",
    ),
    "metadata.version": ("The format of the metadata; it follows the oldest release.", 0, ""),
}
