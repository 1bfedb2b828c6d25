"""What the page of a partition's log makes of looks that were made up: states, markers, records, ways to go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.domain import access
from app.domain.access import Role
from app.domain.errors import InvalidError
from app.domain.journals.record_batch import MarkerType
from app.domain.partition_log.content import Content, LogRecord
from app.domain.partition_log.entries import EntryState, entries_of, named
from app.services.partition_log import PartitionLog
from app.web.pages.frame import display, screen
from tests.domain.partition_log.logs import WrittenLog
from tests.web.pages.samples import NOW


def look() -> PartitionLog:
    written = WrittenLog()
    written.data(7, epoch=5)
    written.mark(7, MarkerType.ABORT, epoch=6)
    written.data(7, epoch=7, records=2)
    found = written.look()
    return PartitionLog(
        topic="flights",
        partition=0,
        bounds=found.bounds,
        start=0,
        next_offset=found.next_offset,
        is_at_end=True,
        entries=named(entries_of(found), {7: "payments"}),
    )


def shown(found: PartitionLog | None, *, role: Role = Role.OPERATOR, **more: Any) -> str:
    def may(verb: access.Verb) -> bool:
        return access.allows(role, verb)

    context: dict[str, Any] = {
        "cluster": "demo",
        "topic": "flights",
        "partition": 0,
        "start": "0",
        "limit": 50,
        "limits": [(50, 50)],
        "keys": False,
        "values": False,
        "may_see_records": access.allows(role, access.Verb.READ_RECORDS),
        "log": found,
        "error": None,
        "is_gone": False,
        "last_abort": 1,
        "moment": display.moment,
        "may": may,
        "now": NOW,
        **more,
    }
    return screen.render("partition_log/_detail", context)


@pytest.mark.parametrize("state", [state for state in EntryState if state is not EntryState.MARKER])
def test_every_state_of_a_batch_is_a_colour_and_a_word(state: EntryState) -> None:
    found = look()
    entries = (msgspec.structs.replace(found.entries[0], state=state),)
    html = shown(msgspec.structs.replace(found, entries=entries))
    assert f">{state.value}</span>" in html


def test_marker_points_at_what_it_decides_and_back() -> None:
    html = shown(look())
    assert 'id="at-1" class="is-marker" data-lights="7"' in html
    assert 'decides 1 record from <a href="#at-0">0</a>' in html
    assert 'by the marker at <a href="#at-1">1</a>' in html


def test_jumps_lead_to_the_first_open_transaction_and_the_last_abort() -> None:
    html = shown(look())
    assert "/clusters/demo/log/flights/0?from=lso&amp;limit=50" in html
    assert 'href="#at-1">Last abort here' in html
    assert "First open" not in shown(
        msgspec.structs.replace(
            look(), bounds=msgspec.structs.replace(look().bounds, last_stable_offset=look().bounds.high_watermark)
        )
    )


def test_records_are_text_whatever_is_in_them() -> None:
    record = LogRecord(
        offset=0,
        timestamp_ms=0,
        key=Content(text="<img src=x onerror=alert(1)>", size_bytes=28),
        value=Content(text="/w==", is_base64=True, size_bytes=9_999, is_cut=True),
    )
    found = look()
    entries = (msgspec.structs.replace(found.entries[0], records=(record,), transactional_id="<b>"),)
    html = shown(msgspec.structs.replace(found, entries=entries), keys=True, values=True)
    assert "<img" not in html
    assert "<b>" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "9,999 bytes in all" in html


@pytest.mark.parametrize("role", list(Role))
def test_records_are_offered_to_operators_only(role: Role) -> None:
    assert ('name="values"' in shown(look(), role=role)) is role.includes(Role.OPERATOR)


def test_wrong_offset_is_named_above_the_form_that_has_it() -> None:
    html = shown(None, error=InvalidError("offset 99 is out of range: flights-0 has offsets 0 to 3"), start="99")
    assert "offset 99 is out of range" in html
    assert 'value="99"' in html


def test_empty_partition_says_what_would_appear() -> None:
    empty = PartitionLog(
        topic="flights",
        partition=0,
        bounds=WrittenLog().look().bounds,
        start=0,
        next_offset=0,
        is_at_end=True,
        entries=(),
    )
    assert "The partition is empty" in shown(empty, last_abort=None)


@pytest.mark.parametrize("timestamp_ms", [None, -1, 2**62])
def test_time_that_no_calendar_has_is_a_dash(timestamp_ms: int | None) -> None:
    found = look()
    entries = (msgspec.structs.replace(found.entries[0], timestamp_ms=timestamp_ms),)
    assert "<time" not in shown(msgspec.structs.replace(found, entries=entries))
