"""An alert: something that a person should know at once, as it is told to programs elsewhere (docs/webhooks.md)."""

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
    """What alerts are about. TEST is told to one webhook, because somebody asked for it."""

    FENCING = "fencing"
    TRANSACTION_OPEN = "transaction_open"
    TRANSACTION_HANGING = "transaction_hanging"
    INSTANCE_LOST = "instance_lost"
    RUN_FAILED = "run_failed"
    CRASH_LOOPING = "crash_looping"
    NOT_PROGRESSING = "not_progressing"
    OFFSETS_CONTRADICTED = "offsets_contradicted"
    OFFSETS_MOVED = "offsets_moved"
    OBSERVER_BEHIND = "observer_behind"
    OBSERVER_BLIND = "observer_blind"
    AUDIT = "audit"
    MIGRATION_ALARM = "migration_alarm"
    TEST = "test"


class AlertState(StrEnum):
    """HAPPENED ─▶ CORRECTED (more is known, or it was none after all);  RAISED ─▶ RESOLVED."""

    HAPPENED = "happened"
    CORRECTED = "corrected"
    RAISED = "raised"
    RESOLVED = "resolved"


CONDITIONS = frozenset(
    {
        AlertKind.TRANSACTION_OPEN,
        AlertKind.TRANSACTION_HANGING,
        AlertKind.OBSERVER_BEHIND,
        AlertKind.OBSERVER_BLIND,
        AlertKind.CRASH_LOOPING,
        AlertKind.NOT_PROGRESSING,
    }
)
"""What lasts: raised once, and resolved once. The other kinds happen."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to tell. What is not known, or is not of its kind, is left out.

    subject: the same in all alerts about one thing, so that a receiver closes with RESOLVED what RAISED has opened.
    at: when it happened or began, by the clock of whoever wrote it down; of RESOLVED when that was seen.
    page: the path on this server that shows it.
    cluster: the name that it is registered under here. cause, confidence, alternatives: of a fencing event, whose id
    `fencing_event` is. said_before: the cause that the alert before this one gave. topic: the journal that an observer
    reads. partitions: `topic-partition`, the first MAX_PARTITIONS of them. audit: the id of the audit that found it;
    lost, duplicated, unexpected: how many outputs. migration: the id of the one that it stopped, or that is over;
    process: the pid on `host` of whom it is about.
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
    partitions: tuple[str, ...] = ()
    audit: str | None = None
    lost: int | None = None
    duplicated: int | None = None
    unexpected: int | None = None
    migration: str | None = None
    process: int | None = None

    @property
    def type(self) -> str:
        """As receivers choose by it: `fencing.happened`."""
        return f"{self.kind}.{self.state}"


class MessageData(Alert, frozen=True, kw_only=True, omit_defaults=True):
    """url: the page, with this server's address before it."""

    url: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery, in the shape of Standard Webhooks.

    type: `<kind>.<state>`. timestamp: that of `data.at`.
    """

    type: str
    timestamp: datetime
    data: MessageData


def message_of(alert: Alert, *, server_url: str) -> bytes:
    """The body that tells `alert`: the same bytes each time."""
    given = {name: getattr(alert, name) for name in alert.__struct_fields__}
    data = MessageData(**given, url=server_url.rstrip("/") + alert.page)
    return msgspec.json.encode(Message(type=alert.type, timestamp=alert.at, data=data))


def subject_of(*parts: object) -> str:
    """The parts in one line that fits into an index: the end of a long one is replaced by its SHA-256."""
    text = "/".join(str(part) for part in parts)
    if len(text) <= LONGEST_SUBJECT:
        return text
    whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[: LONGEST_SUBJECT - 80]}…sha256:{whole}"


def bounded(alert: Alert) -> Alert:
    """With texts and lists cut to what a receiver can be expected to take."""
    texts = {
        name: value[: LONGEST_TEXT - 1] + "…"
        for name in alert.__struct_fields__
        if isinstance(value := getattr(alert, name), str) and len(value) > LONGEST_TEXT
    }
    return msgspec.structs.replace(
        alert, **texts, partitions=alert.partitions[:MAX_PARTITIONS], at=alert.at.astimezone(UTC)
    )
