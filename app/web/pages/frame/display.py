"""How values are written on a page: numbers, sizes, times and states. Pure; the template engine's filters."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup, escape

from app.domain.audits.audit import AuditState
from app.domain.audits.result import Finding
from app.domain.audits.result import Verdict as AuditVerdict
from app.domain.drills.drill import DrillState, DrillVerdict, TargetState
from app.domain.fencing_events.fencing_event import Cause
from app.domain.journals.live_groups import GroupState
from app.domain.journals.transaction_state import TransactionStatus
from app.domain.migrations.judged import Standing as ClauseStanding
from app.domain.migrations.migration import MigrationState, StepState
from app.domain.migrations.mode import Mode
from app.domain.observing.snapshot import Phase
from app.domain.observing.wording import Quality
from app.domain.partition_log.entries import EntryState
from app.domain.runs.instance import InstanceState
from app.domain.runs.run import RunState
from app.domain.runs.task import EventKind, TaskState
from app.domain.stuck.diagnosis import Verdict
from app.domain.transactions.id_registry import Standing
from app.domain.webhooks.webhook import DeliveryState

NOTHING = "–"
SHORT_ID_CHARS = 8

_TONES: tuple[tuple[str, str], ...] = (
    (RunState.PENDING, "busy"),
    (RunState.STARTING, "busy"),
    (RunState.RUNNING, "good"),
    (RunState.PAUSED, "warn"),
    (RunState.DEGRADED, "bad"),
    (RunState.CRASH_LOOPING, "bad"),
    (RunState.BOUNCING, "busy"),
    (RunState.DRAINING, "busy"),
    (RunState.KILLING, "warn"),
    (RunState.STOPPED, "idle"),
    (RunState.FAILED, "bad"),
    (InstanceState.PENDING, "busy"),
    (InstanceState.SUBMITTING, "busy"),
    (InstanceState.STARTING, "busy"),
    (InstanceState.RUNNING, "good"),
    (InstanceState.PAUSED, "warn"),
    (InstanceState.DRAINING, "busy"),
    (InstanceState.UNREACHABLE, "warn"),
    (InstanceState.STOPPED, "idle"),
    (InstanceState.FAILED, "bad"),
    (InstanceState.LOST, "bad"),
    (TaskState.STARTING, "busy"),
    (TaskState.RUNNING, "good"),
    (TaskState.PAUSED, "warn"),
    (TaskState.BACKING_OFF, "warn"),
    (TaskState.FENCED, "bad"),
    (TaskState.DRAINING, "busy"),
    (TaskState.DRAINED, "idle"),
    (TaskState.SUPERSEDED, "idle"),
    (TaskState.FAILED, "bad"),
    (MigrationState.ACTIVE, "busy"),
    (MigrationState.PAUSED, "warn"),
    (MigrationState.STOPPED, "bad"),
    (MigrationState.DONE, "good"),
    (MigrationState.ABORTED, "idle"),
    (StepState.UNDERWAY, "busy"),
    (StepState.DONE, "good"),
    (StepState.LATE, "bad"),
    (StepState.DROPPED, "idle"),
    (Mode.GROUP_ONLY, "warn"),
    (Mode.GENERATION, "busy"),
    (Mode.V2, "good"),
    (ClauseStanding.OPEN, "good"),
    (ClauseStanding.CLOSED, "warn"),
    (ClauseStanding.UNKNOWN, "idle"),
    (EventKind.ASSIGNED, "good"),
    (EventKind.REVOKED, "busy"),
    (EventKind.LOST, "warn"),
    (EventKind.FENCED, "bad"),
    (EventKind.ABORTED, "warn"),
    (EventKind.OUTCOME_UNKNOWN, "warn"),
    (EventKind.REBUILT, "good"),
    (EventKind.SUPERSEDED, "idle"),
    (EventKind.BAD_RECORD, "warn"),
    (EventKind.ERROR, "bad"),
    (DrillState.ORDERED, "busy"),
    (DrillState.UNDERWAY, "warn"),
    (DrillState.RECOVERING, "busy"),
    (DrillState.AUDITING, "busy"),
    (DrillState.ENDED, "idle"),
    (DrillVerdict.SURVIVED, "good"),
    (DrillVerdict.NOT_SURVIVED, "bad"),
    (DrillVerdict.NOT_AUDITED, "warn"),
    (DrillVerdict.STOPPED, "idle"),
    (DrillVerdict.NOT_BEGUN, "idle"),
    (TargetState.ORDERED, "busy"),
    (TargetState.CLAIMED, "warn"),
    (TargetState.FROZEN, "warn"),
    (TargetState.THAWED, "good"),
    (TargetState.KILLED, "bad"),
    (TargetState.REFUSED, "idle"),
    (EntryState.PLAIN, "idle"),
    (EntryState.OPEN, "busy"),
    (EntryState.COMMITTED, "good"),
    (EntryState.ABORTED, "warn"),
    (EntryState.UNKNOWN, "idle"),
    (EntryState.MARKER, "idle"),
    (EntryState.UNREADABLE, "bad"),
    (Verdict.END, "bad"),
    (Verdict.FENCE, "bad"),
    (Verdict.OWNER, "warn"),
    (Verdict.WAIT, "warn"),
    (Verdict.NO_MEMBERS, "warn"),
    (Verdict.BEHIND, "warn"),
    (Verdict.CANNOT_TELL, "idle"),
    (Verdict.UNSETTLED, "busy"),
    (Verdict.ONLY_MARKERS, "good"),
    (Verdict.FREE, "good"),
    (TransactionStatus.EMPTY.word, "idle"),
    (TransactionStatus.ONGOING.word, "busy"),
    (TransactionStatus.PREPARE_COMMIT.word, "busy"),
    (TransactionStatus.PREPARE_ABORT.word, "warn"),
    (TransactionStatus.COMPLETE_COMMIT.word, "good"),
    (TransactionStatus.COMPLETE_ABORT.word, "warn"),
    (TransactionStatus.DEAD.word, "bad"),
    (TransactionStatus.PREPARE_EPOCH_FENCE.word, "warn"),
    (GroupState.EMPTY, "idle"),
    (GroupState.STABLE, "good"),
    (GroupState.ASSIGNING, "busy"),
    (GroupState.RECONCILING, "busy"),
    (GroupState.PREPARING_REBALANCE, "busy"),
    (GroupState.COMPLETING_REBALANCE, "busy"),
    (GroupState.UNKNOWN, "warn"),
    (Standing.OURS, "good"),
    (Standing.FOREIGN, "idle"),
    (Standing.ORPHANED, "warn"),
    (Standing.ARCHIVED, "idle"),
    (Quality.LIVE, "good"),
    (Quality.PARTIAL, "busy"),
    (Quality.STALE, "warn"),
    (Quality.NOTHING, "idle"),
    (Phase.OFF, "idle"),
    (Phase.CONNECTING, "busy"),
    (Phase.ABSENT, "idle"),
    (Phase.REFUSED, "bad"),
    (Phase.CATCHING_UP, "busy"),
    (Phase.LIVE, "good"),
    (Phase.LOST, "bad"),
    (AuditState.PENDING, "busy"),
    (AuditState.SUBMITTING, "busy"),
    (AuditState.RUNNING, "busy"),
    (AuditState.STOPPING, "busy"),
    (AuditState.DONE, "idle"),
    (AuditState.FAILED, "bad"),
    (AuditState.STOPPED, "idle"),
    (AuditState.SKIPPED, "warn"),
    (AuditVerdict.CLEAN, "good"),
    (AuditVerdict.BROKEN, "bad"),
    (AuditVerdict.NOT_SHOWN, "warn"),
    (AuditVerdict.EMPTY, "idle"),
    (Finding.LOST, "bad"),
    (Finding.DUPLICATED, "bad"),
    (Finding.UNEXPECTED, "bad"),
    (Finding.LATE, "warn"),
    (Finding.MISSING, "warn"),
    (Finding.UNEXPLAINED, "warn"),
    (Finding.UNREADABLE_INPUT, "warn"),
    (Finding.UNREADABLE_OUTPUT, "warn"),
    (Finding.DANGLING, "bad"),
    (DeliveryState.PENDING, "busy"),
    (DeliveryState.DELIVERED, "good"),
    (DeliveryState.GIVEN_UP, "bad"),
    (Cause.TAKEOVER, "warn"),
    (Cause.APPLICATION_RETURNED, "warn"),
    (Cause.TIMEOUT, "bad"),
    (Cause.OPERATOR_FENCE, "busy"),
    (Cause.DEAD_TASK, "busy"),
    (Cause.COORDINATOR_ABORT, "warn"),
    (Cause.ZOMBIE_REFUSED, "warn"),
    (Cause.UNEXPLAINED, "bad"),
    (Cause.STALE_GENERATION, "warn"),
    (Cause.STALE_MEMBER_EPOCH, "warn"),
    (Cause.OPERATOR_ABORT, "bad"),
    (Cause.HANGING_ENDED, "busy"),
    (Cause.CLEAN_RESTART, "idle"),
    (Cause.OWN_ABORT, "idle"),
    (Cause.OWN_EPOCH, "idle"),
    (Cause.EPOCHS_USED_UP, "idle"),
)
_GRAVITY = ("idle", "good", "busy", "warn", "bad")
# By their type, since members of two enums with one value are equal: a lost instance is worse than lost partitions.
_OF_NOUN = {(type(state), str(state)): tone for state, tone in _TONES}
_OF_WORD = {str(state): tone for state, tone in sorted(_TONES, key=lambda pair: _GRAVITY.index(pair[1]))}


def tone(state: str) -> str:
    """The colour that goes with a state: good, busy, warn, bad or idle; a word alone has the gravest of its nouns."""
    return _OF_NOUN.get((type(state), str(state))) or _OF_WORD[state]


def words(name: str) -> str:
    """An enum's value as people write it: `backing_off` → `backing off`."""
    return str(name).replace("_", " ")


def count(value: float | None) -> str:
    """A whole number with thousands separated; a dash when it is not known."""
    return NOTHING if value is None else f"{round(value):,}"


def rate(value: float | None) -> str:
    """Per second: one decimal below ten, none above; two digits of what is less than a tenth."""
    if value is None:
        return NOTHING
    if 0 < value < 0.1:
        return f"{value:.2g}" if value >= 0.001 else "< 0.001"
    return f"{value:.1f}" if 0 < value < 10 else f"{round(value):,}"


def size(size_bytes: float | None) -> str:
    """In the decimal unit that reads best: 812 B, 1.2 kB, 34 MB."""
    if size_bytes is None:
        return NOTHING
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # What would be written as a thousand of a unit is one of the next.
        if size_bytes >= length * 0.9995:
            value = size_bytes / length
            return f"{value:.1f} {unit}" if value < 9.95 else f"{round(value):,} {unit}"
    return f"{round(size_bytes):,} B"


def milliseconds(value: float | None) -> str:
    """A duration in the unit that reads best."""
    if value is None:
        return NOTHING
    if 0 < value < 10:
        return f"{value:.1f} ms"
    return f"{round(value):,} ms" if value < 1_000 else f"{value / 1_000:,.1f}".removesuffix(".0") + " s"


def relative(at: datetime, now: datetime) -> str:
    """How long ago, or in how long, in one unit; app.js goes on with the same words."""
    seconds = (now - at).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    for unit, length_s, below_s in (
        ("s", 1, 60),
        ("min", 60, 3_600),
        ("h", 3_600, 86_400),
        ("d", 86_400, float("inf")),
    ):
        if size < below_s:
            text = f"{int(size // length_s)} {unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    raise AssertionError(size)


def absolute(at: datetime) -> str:
    """The moment in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def prose(sentence: str) -> Markup:
    """A sentence of ours whose `names` stand between backticks, with those as code; everything in it is escaped."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def short(identifier: str) -> str:
    """The first characters of a long id; the whole one is in the title and under the copy button."""
    return identifier[:SHORT_ID_CHARS]


def moment(timestamp_ms: int | None) -> datetime | None:
    """None for what a broker or producer may write as a time and no calendar has."""
    try:
        return None if timestamp_ms is None or timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
