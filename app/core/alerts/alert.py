"""An alert: an event or a condition that is reported to programs elsewhere at once (docs/webhooks.md)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

LONGEST_SUBJECT = 400
"""Longer ones do not fit into an index; Kafka takes transactional ids of 32 kB."""
MAX_PARTITIONS = 50
LONGEST_TEXT = 2_000


class AlertKind(StrEnum):
    """The subjects of alerts. TEST goes to one webhook, on a user's request."""

    FENCING = "fencing"
    TRANSACTION_OPEN = "transaction_open"
    TRANSACTION_HANGING = "transaction_hanging"
    INSTANCE_LOST = "instance_lost"
    RUN_FAILED = "run_failed"
    CRASH_LOOPING = "crash_looping"
    NOT_PROGRESSING = "not_progressing"
    OFFSETS_CONTRADICTED = "offsets_contradicted"
    OFFSETS_MOVED = "offsets_moved"
    DOUBLE_PROCESSING = "double_processing"
    LAG = "lag"
    LAG_GROWING = "lag_growing"
    OBSERVER_BEHIND = "observer_behind"
    OBSERVER_BLIND = "observer_blind"
    AUDIT = "audit"
    MIGRATION_ALARM = "migration_alarm"
    TEST = "test"


class AlertState(StrEnum):
    """HAPPENED ─▶ CORRECTED (another cause, or no fencing after all);  RAISED ─▶ RESOLVED."""

    HAPPENED = "happened"
    CORRECTED = "corrected"
    RAISED = "raised"
    RESOLVED = "resolved"


CONDITIONS = frozenset(
    {
        AlertKind.TRANSACTION_OPEN,
        AlertKind.TRANSACTION_HANGING,
        AlertKind.DOUBLE_PROCESSING,
        AlertKind.OBSERVER_BEHIND,
        AlertKind.OBSERVER_BLIND,
        AlertKind.CRASH_LOOPING,
        AlertKind.NOT_PROGRESSING,
        AlertKind.LAG,
        AlertKind.LAG_GROWING,
    }
)
"""Lasting conditions: raised once, and resolved once. The other kinds are events."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert. Fields that are unknown, or not of its kind, are left out.

    subject: equal in all alerts about one thing, so that a receiver closes with RESOLVED the ticket of RAISED.
    at: the time or the begin, by the writer's clock; for RESOLVED the time when the end was observed.
    page: the path on this server that shows it.
    cluster: the name in Fenceline. cause, confidence, alternatives: of a fencing event, with the id `fencing_event`;
    of double processing the pattern, the grade and other explanations. group: whose offsets these are.
    said_before: the cause in the alert before this one. topic: the journal that an observer reads.
    partitions: `topic-partition`, the first MAX_PARTITIONS of them. audit: the id of the audit with the finding;
    lost, duplicated, unexpected, different: how many outputs. migration: the id of the migration that it stopped, or
    that has ended. process: the pid on `host` of the affected process.
    lag_records, lag_s: of the group; lag_s is the age of its oldest unread record.
    """

    kind: AlertKind
    state: AlertState
    subject: str
    at: datetime
    sentence: str
    page: str
    cluster: str | None = None
    kafka_cluster_id: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    fencing_event: str | None = None
    cause: str | None = None
    confidence: str | None = None
    alternatives: tuple[str, ...] = ()
    said_before: str | None = None
    pipeline: str | None = None
    run: str | None = None
    instance: int | None = None
    task: int | None = None
    host: str | None = None
    topic: str | None = None
    group: str | None = None
    partitions: tuple[str, ...] = ()
    audit: str | None = None
    lost: int | None = None
    duplicated: int | None = None
    unexpected: int | None = None
    different: int | None = None
    migration: str | None = None
    process: int | None = None
    lag_records: int | None = None
    lag_s: int | None = None

    @property
    def type(self) -> str:
        """Return the type that receivers select by: `fencing.happened`."""
        return f"{self.kind}.{self.state}"


class MessageData(Alert, frozen=True, kw_only=True, omit_defaults=True):
    """url: the page, with this server's address before it."""

    url: str


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery, in the shape of Standard Webhooks.

    type: `<kind>.<state>`. timestamp: that of `data.at`.
    """

    type: str
    timestamp: datetime
    data: MessageData


def message_of(alert: Alert, *, server_url: str) -> bytes:
    """Return the body with `alert`: the same bytes each time."""
    given = {name: getattr(alert, name) for name in alert.__struct_fields__}
    data = MessageData(**given, url=server_url.rstrip("/") + alert.page)
    return msgspec.json.encode(AlertMessage(type=alert.type, timestamp=alert.at, data=data))


def subject_of(*parts: object) -> str:
    """Return the parts in one line that fits into an index: the end of a long one is replaced by its SHA-256."""
    text = "/".join(str(part) for part in parts)
    if len(text) <= LONGEST_SUBJECT:
        return text
    whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[: LONGEST_SUBJECT - 80]}…sha256:{whole}"


def bounded(alert: Alert) -> Alert:
    """Return it with texts and lists cut to a size that receivers accept."""
    texts = {
        name: value[: LONGEST_TEXT - 1] + "…"
        for name in alert.__struct_fields__
        if isinstance(value := getattr(alert, name), str) and len(value) > LONGEST_TEXT
    }
    return msgspec.structs.replace(
        alert, **texts, partitions=alert.partitions[:MAX_PARTITIONS], at=alert.at.astimezone(UTC)
    )
