"""Differences of two queries, as sentences."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import OutputMode, Stream
from app.core.pipelines.revision import diff
from tests.core.pipelines.test_dataframe_checks import A_FILE, FLIGHTS, a_query, a_query_pipeline


def sentences(**changes: object) -> list[str]:
    return [change.sentence for change in diff(a_query_pipeline(), a_query_pipeline(a_query(**changes)))]


def test_settings_have_their_names_and_units() -> None:
    assert sentences(trigger_ms=5000, output_mode=OutputMode.UPDATE) == [
        "The output mode changes from append to update.",
        "The trigger interval changes from 1000 ms to 5000 ms.",
    ]


def test_another_query_is_one_change() -> None:
    assert sentences(sql="SELECT 1 FROM flights") == ["The SQL of the query changes."]
    assert sentences(**A_FILE)[0] == "The query is a function of a file, and no longer SQL."


def test_streams_are_compared_by_name() -> None:
    late = msgspec.structs.replace(FLIGHTS, event_time="at", watermark_ms=5)
    more = Stream(name="more", topic="more", schema="id INT")
    assert sentences(streams=(more, late)) == [
        "The stream flights changes: event time from none to at, watermark from none to 5 ms.",
        "The stream more is new: topic more, schema id INT.",
    ]
    both, turned = ((FLIGHTS, more), (more, FLIGHTS))
    changes = diff(a_query_pipeline(a_query(streams=both)), a_query_pipeline(a_query(streams=turned)))
    assert [change.sentence for change in changes] == ["The order of the streams changes."]
