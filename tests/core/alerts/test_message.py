"""The body of a delivery follows docs/webhooks.schema.json, and is bounded for any alert."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from app.core.alerts.alert import Alert, AlertKind, AlertMessage, AlertState, bounded, message_of
from tests.support.schemas import cleaned

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/webhooks.schema.json").read_text("utf-8"))
AT = datetime(2026, 11, 21, 14, 3, 11, tzinfo=UTC)


def alert(**more: Any) -> Alert:
    given: dict[str, Any] = {
        "kind": AlertKind.FENCING,
        "state": AlertState.HAPPENED,
        "subject": "fencing/1",
        "at": AT,
        "sentence": "It was fenced.",
        "page": "/fencing/1",
    }
    return Alert(**{**given, **more})


def test_schema_in_the_documents_is_that_of_the_code() -> None:
    assert {
        "$schema": SCHEMA["$schema"],
        "title": SCHEMA["title"],
        **cleaned(json.loads(json.dumps(msgspec.json.schema(AlertMessage)))),
    } == cleaned(SCHEMA)


@pytest.mark.parametrize("kind", list(AlertKind))
def test_every_kind_is_valid_by_the_schema(kind: AlertKind) -> None:
    for state in AlertState:
        body = message_of(alert(kind=kind, state=state, producer_id=4012), server_url="https://f.example.com/")
        jsonschema.validate(json.loads(body), SCHEMA)
        assert json.loads(body)["type"] == f"{kind}.{state}"


def test_unknown_fields_are_left_out_and_the_page_has_the_servers_address() -> None:
    data = json.loads(message_of(alert(), server_url="https://f.example.com/"))["data"]
    assert set(data) == {"kind", "state", "subject", "at", "sentence", "page", "url"}
    assert data["url"] == "https://f.example.com/fencing/1"


def test_body_of_any_alert_is_bounded() -> None:
    names = [one.name for one in msgspec.structs.fields(Alert) if one.type in (str, str | None)]
    huge = alert(
        **dict.fromkeys(names, "\N{SNOWMAN}" * 40_000), partitions=tuple(f"topic-{number}" for number in range(10_000))
    )
    assert len(message_of(bounded(huge), server_url="https://f.example.com")) < 120_000


def test_times_are_in_utc() -> None:
    told = bounded(alert(at=AT.astimezone(timezone(timedelta(hours=2)))))
    assert json.loads(message_of(told, server_url=""))["timestamp"] == "2026-11-21T14:03:11Z"
