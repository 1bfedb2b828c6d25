"""The formats of values."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import pytest

from app.core.alerts.webhook import DeliveryState
from app.core.fencing.fencing_event import FencingCause
from app.core.observing.snapshot import ReadingPhase
from app.core.runs.instance import InstanceState
from app.core.runs.run import RunState
from app.core.runs.task import EventKind, TaskState
from app.kit.web.pages import display
from app.products.audits.audit import AuditState
from app.products.audits.result import AuditVerdict, IdFinding
from app.products.drills.drill import DrillState, DrillVerdict, TargetState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


STATES: tuple[type[StrEnum], ...] = (
    RunState,
    InstanceState,
    TaskState,
    EventKind,
    FencingCause,
    ReadingPhase,
    DrillState,
    DrillVerdict,
    TargetState,
    AuditState,
    AuditVerdict,
    IdFinding,
    DeliveryState,
)


@pytest.mark.parametrize("states", STATES)
def test_every_state_has_a_tone(states: type[StrEnum]) -> None:
    for state in states:
        assert display.tone(state) in {"good", "busy", "warn", "bad", "idle"}


@pytest.mark.parametrize(
    ("state", "tone"),
    [
        (InstanceState.LOST, "bad"),
        (EventKind.LOST, "warn"),
        (IdFinding.LOST, "bad"),
        (IdFinding.UNEXPLAINED, "warn"),
        (FencingCause.UNEXPLAINED, "bad"),
        (ReadingPhase.REFUSED, "bad"),
        (TargetState.REFUSED, "idle"),
        (RunState.RUNNING, "good"),
        (AuditState.RUNNING, "busy"),
    ],
)
def test_a_state_has_the_tone_of_its_noun(state: StrEnum, tone: str) -> None:
    assert display.tone(state) == tone


def test_a_state_without_its_noun_has_the_gravest_tone() -> None:
    assert display.tone("lost") == "bad"
    assert display.tone("unexplained") == "bad"


def test_state_that_no_noun_registered_has_no_tone() -> None:
    with pytest.raises(KeyError):
        display.tone("unheard of")


def test_state_has_one_tone() -> None:
    display.register_tones(((RunState.RUNNING, "good"),))
    with pytest.raises(ValueError, match=r"^RunState running is good already, and cannot be bad$"):
        display.register_tones(((RunState.RUNNING, "bad"),))
    assert display.tone(RunState.RUNNING) == "good"


def test_the_absolute_time_is_in_utc() -> None:
    zone = datetime.fromisoformat("2026-03-01T14:05:06+02:00")
    assert display.absolute(zone) == "2026-03-01 12:05:06 UTC"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.0004, "< 0.001"),
        (1 / 31, "0.032"),
        (0.44, "0.4"),
        (9.96, "10.0"),
        (10, "10"),
        (8_412.4, "8,412"),
    ],
)
def test_a_rate_has_a_decimal_only_where_it_says_something(value: float | None, text: str) -> None:
    assert display.rate(value) == text


@pytest.mark.parametrize(
    ("sentence", "html"),
    [
        ("the topic `in` is unknown", "the topic <code>in</code> is unknown"),
        ("`<b>` and <i>", "<code>&lt;b&gt;</code> and &lt;i&gt;"),
        ("an odd ` one <b>", "an odd ` one &lt;b&gt;"),
        ("plain", "plain"),
    ],
)
def test_prose_marks_names_and_escapes_everything(sentence: str, html: str) -> None:
    assert str(display.prose(sentence)) == html
