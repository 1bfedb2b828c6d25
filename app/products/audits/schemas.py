"""Audits at the edge: what is asked for, what came of it, and the plan that a pipeline is audited by."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from app.core.pipelines.definition_schema import TopicName
from app.kit.storable import moment_of_ms
from app.kit.web.api.bodies import Answer, Body, Given
from app.kit.web.api.shown import Shown, made, model_of, shows
from app.kit.web.api.taken import Taken, takes, takes_by_hand
from app.kit.web.api.words import Moment, Why
from app.products.audits import audit as domain_audit
from app.products.audits import plan as domain_plan
from app.products.audits import result, specification
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, next_due_at, time_window
from app.products.audits.result import AuditResult, Verdict
from app.products.audits.telling import audit_sentence

Seconds = Annotated[int, Field(ge=0, lt=2**31)]
Offset = Annotated[int, Field(ge=0, lt=2**63)]


@takes(specification.JsonField)
class JsonField:
    """The id is a field of the value."""

    path: Annotated[str, Field(min_length=1, max_length=1000, description="A path such as `order.id`.")]


@takes(specification.Header)
class Header:
    """The id is the last header of this name."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]


@takes(specification.RecordKey)
class RecordKey:
    """The id is the record's key."""


class TimeWindow(Given):
    """Records of the input with timestamps from `start` on and before `end`."""

    kind: Literal["time"]
    start: Annotated[Moment, Field(strict=False)]
    end: Annotated[Moment, Field(strict=False)]

    def to_domain(self) -> specification.TimeWindow:
        return time_window(self.start, self.end)

    @classmethod
    def of_window(cls, window: specification.TimeWindow) -> TimeWindow:
        return cls.model_construct(kind="time", start=moment_of_ms(window.start_ms), end=moment_of_ms(window.end_ms))


takes_by_hand(specification.TimeWindow, TimeWindow, taken=TimeWindow.to_domain, shown=TimeWindow.of_window)


@takes(specification.OffsetRange)
class OffsetRange:
    topic: TopicName
    partition: Annotated[int, Field(ge=0, lt=2**31)]
    start: Offset
    end: Annotated[Offset, Field(description="The first offset behind the window.")]


@takes(specification.OffsetWindow)
class OffsetWindow:
    """These offsets of the input; its output is found by time."""

    ranges: Annotated[list[OffsetRange], Field(min_length=1, max_length=10_000)]


@takes(specification.Everything)
class Everything:
    """All that the topics hold."""


class AuditGiven(Body):
    """An audit to carry out. What is left out is taken from the pipeline's audit plan, else from the defaults.

    source_id_place: where inputs have their id, when that is another place than where outputs have it.
    """

    window: Taken[specification.Window]
    id_place: Taken[specification.IdPlace] | None = None
    source_id_place: Taken[specification.IdPlace] | None = None
    padding_s: Annotated[
        Seconds | None, Field(description="An output so far outside of the window is late, not lost.")
    ] = None
    tolerance_s: Annotated[
        Seconds | None, Field(description="Skipped when the pipeline has not passed the window within it.")
    ] = None
    why: Why = None


class AuditPlanGiven(Body):
    """How a pipeline is audited. every_s: the length of the windows that are audited by themselves; none: on demand."""

    id_place: Taken[specification.IdPlace]
    source_id_place: Taken[specification.IdPlace] | None = None
    padding_s: Seconds = DEFAULT_PADDING_S
    every_s: Seconds | None = None
    tolerance_s: Seconds = DEFAULT_TOLERANCE_S
    why: Why = None


@shows(domain_plan.AuditPlan)
class AuditPlan:
    """decided_until: where the next window begins. next_due_at: when it can be audited at the earliest.

    shown_until: the end of the plan's newest window of which it was shown that every output is there, once.
    """

    next_due_at: datetime | None = made(next_due_at)


@shows(result.Tally)
class Tally:
    """How many ids, and how many outputs of them."""


@shows(result.AuditCounts, optional=("files", "dangling"))
class AuditCounts:
    """All of the window. pending: inputs that the pipeline has not committed: nothing is expected of them yet. dropped:
    those that the transform keeps nothing of, on purpose; skipped, dead_lettered, stopping: it fails on them, and the
    pipeline's policy does that. undelivered: among the dead letters, as brokers refused them. elsewhere: in topics that
    were not read. repeated: ids that several inputs have. missing and unexplained prove nothing, since not all could be
    read or judged. files: that were verified and read, where outputs are records of files; dangling: references to such
    as are missing or other ones, and how many records these should hold.
    """


@shows(result.Place, optional=True)
class Place:
    """A record; of an output in a file the reference to it. file: its path below the root."""


@shows(result.Example, optional=("why",))
class Example:
    """One id of which something is to be said. id: with `with_ids` only, and where there is one. why: of a dangling
    reference, what its file is.
    """


@shows(result.RangeRead)
class RangeRead:
    """What was read of a partition: from `read_start` up to `read_end`; the window is from `start` up to `end`."""


@shows(result.Gap)
class Gap:
    """What belongs to the audit and was not read."""


@shows(result.AuditResult, without=("audit_id",))
class Result:
    """Exact counts, and bounded examples, which a list of audits leaves out as it does ranges and partitions."""


@shows(domain_audit.AuditProgress)
class AuditProgress:
    """offsets: how many there are to read in all, 0 until it is known."""


def _without_ids(audit: domain_audit.Audit) -> AuditResult | None:
    if audit.result is None:
        return None
    examples = tuple(msgspec.structs.replace(example, id=None) for example in audit.result.examples)
    return msgspec.structs.replace(audit.result, examples=examples)


# Its driver, and the end that a stop leads to, stay inside.
@shows(
    domain_audit.Audit,
    without=("host", "jvm_pid", "log_path", "process_started_at", "python_pid", "stops_as"),
)
class Audit:
    """sentence: what there is to say of it. verdict: of one that is done; no other shows anything."""

    sentence: str = made(audit_sentence)
    verdict: Verdict | None
    result: Shown[AuditResult] | None = made(_without_ids)


def with_ids(audit: domain_audit.Audit) -> Answer:
    """The answer with the ids of the examples."""
    return model_of(domain_audit.Audit).of(audit, result=audit.result)
