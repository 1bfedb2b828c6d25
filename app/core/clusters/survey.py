"""What a cluster says of itself, broker by broker, and what follows from it for transactions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class SurveyedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """host, port: as advertised. version: (major, minor) by the API versions that it offers; None: no answer came.

    settings: those of SETTINGS that it has; None: it did not answer, or they may not be read.
    """

    id: int
    host: str
    port: int
    is_controller: bool
    version: tuple[int, int] | None
    settings: dict[str, str] | None


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature of the cluster: level 0 is off. newest: the highest level that its brokers could have."""

    name: str
    level: int
    newest: int | None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """features: those that its brokers support, by name."""

    cluster_id: str
    brokers: tuple[SurveyedBroker, ...]
    features: tuple[Feature, ...]


class SettingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the brokers. values: one where all have the same, more where they differ; empty: none says it.

    meaning: what it does to transactions. advice: what to think about; empty: as it should be.
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
    """Every setting that matters for transactions, with advice where the cluster's own value asks for it."""
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
            advice = f"The brokers differ: any of them may be the coordinator. {advice}".strip()
        lines.append(SettingLine(name=name, values=tuple(found), meaning=meaning, advice=advice))
    return tuple(lines)


def longest_ms(survey: Survey, setting: str) -> int | None:
    """The longest time that any broker has for it, since any may be the coordinator; None while one does not say."""
    values = [_number((broker.settings or {}).get(setting, "")) for broker in survey.brokers]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def feature_lines(survey: Survey) -> tuple[FeatureLine, ...]:
    """The features that matter here, those first of which something follows."""
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
        return "While it has fewer than three brokers it cannot have more; the loss of one broker may lose this topic."
    return f"With {brokers} brokers let it have three replicas: its loss is the loss of all that it says."


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
            "A pipeline that rests longer than that loses its ids and their epochs, and with them what keeps an older "
            "producer from writing. Let it be a week."
        )
    retention = max((_number(one) or 0 for one in values["offsets.retention.minutes"]), default=0) * _MINUTE_MS
    if retention > expiration_ms:
        return "Committed offsets live longer than the ids that wrote them: let the ids live as long."
    return ""


def _number(value: str) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None


SETTINGS: dict[str, tuple[str, _Judge]] = {
    GROUP_SESSION: (
        "A member of a KIP-848 group that is silent for so long is put out, where the group has no time of its own.",
        _either,
    ),
    "transaction.max.timeout.ms": (
        "The longest `transaction.timeout.ms` a producer may ask for: so long may one that died hold readers up.",
        _longer_than(
            _MAX_TIMEOUT_MS,
            "That is more than Kafka's own 15 minutes: whoever asks for it can hold readers up so long.",
        ),
    ),
    ABORT_SWEEP: (
        "How often the coordinator looks for transactions that timed out: they may live longer by that (KIP-447).",
        _longer_than(
            _LOOK_EVERY_MS, "Readers wait so much longer for a producer that has died; KIP-447 made it 10,000 ms."
        ),
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often the coordinator forgets the ids that nobody has used for `transactional.id.expiration.ms`.",
        _longer_than(_DAY_MS, "Ids stay in memory for so much longer than they should."),
    ),
    ID_EXPIRATION: (
        "An id that nobody uses for so long is forgotten, with its producer id and epoch.",
        _forgotten_before_groups,
    ),
    "producer.id.expiration.ms": (
        "A partition forgets a producer that has written nothing for so long, and no longer knows its duplicates.",
        _shorter_than(_MAX_TIMEOUT_MS, "It should be longer than any transaction may be open: a day is Kafka's own."),
    ),
    "offsets.retention.minutes": (
        "A group without members keeps its committed offsets for so long.",
        _shorter_than(
            7 * 24 * 60,
            "A pipeline that rests longer than that begins again at its start position: what is there is read again "
            "or left out. Kafka's own is a week.",
        ),
    ),
    "transaction.partition.verification.enable": (
        "Whether a leader asks the coordinator before it takes the first record of a transaction (KIP-890).",
        _is(
            "false",
            "Without it a record that comes late opens a transaction that nobody ends. Switch it on.",
        ),
    ),
    "transaction.two.phase.commit.enable": (
        "Whether producers may have transactions that never time out (KIP-939).",
        _is("true", "A producer that dies with such a transaction holds readers up until somebody ends it by hand."),
    ),
    "transaction.state.log.replication.factor": (
        "Replicas of `__transaction_state`, which every transaction is decided in.",
        _fewer_replicas,
    ),
    "transaction.state.log.min.isr": ("How many of them have a record before it counts.", _few_in_sync),
    "offsets.topic.replication.factor": (
        "Replicas of `__consumer_offsets`, which says how far every group has read.",
        _fewer_replicas,
    ),
    "unclean.leader.election.enable": (
        "Whether a replica that lacks records may lead.",
        _is("true", "Such a leader drops committed records, and markers of transactions with them."),
    ),
}
"""By name: what it means, and what is said of a value. Only these are asked of a cluster and shown."""

_FEATURES: dict[str, tuple[str, int, str]] = {
    "transaction.version": (
        "2: an epoch for each transaction (KIP-890), so that nothing late can get into the next one.",
        2,
        "Once all brokers are of 4.0 or later: `kafka-features.sh upgrade --feature transaction.version=2`.",
    ),
    "group.version": (
        "1: groups of KIP-848, which rebalance without stopping everybody.",
        1,
        "Pipelines need it for `group_protocol: consumer`: `kafka-features.sh upgrade --feature group.version=1`.",
    ),
    "metadata.version": ("What the brokers may write into the metadata; it follows the oldest release.", 0, ""),
}
