"""Text formats of windows, ids and baselines, such as `json:order.id` and `topic:old-payments`."""

from __future__ import annotations

from datetime import UTC

from app.kit.moments import WordsError
from app.kit.storable import moment_of_ms
from app.products.audits.comparison import (
    Baseline,
    FileFormat,
    FilesBaseline,
    Recomputation,
    TableBaseline,
    TopicBaseline,
)
from app.products.audits.result import EventTimes
from app.products.audits.specification import HeaderId, IdPlace, JsonField, OffsetWindow, RecordKey, TimeWindow, Window


def id_place_of(text: str) -> IdPlace:
    """Parse `key`, `json:PATH` or `header:NAME`. Raises WordsError."""
    kind, _, name = text.strip().partition(":")
    if kind == "key" and not name:
        return RecordKey()
    if kind == "json" and name:
        return JsonField(path=name)
    if kind == "header" and name:
        return HeaderId(name=name)
    raise WordsError(f"`{text}`: expected key, json:PATH or header:NAME")


def id_place_text(place: IdPlace) -> str:
    """Return the text that `id_place_of` parses as `place`."""
    match place:
        case JsonField():
            return f"json:{place.path}"
        case HeaderId():
            return f"header:{place.name}"
        case RecordKey():
            return "key"


def id_place_words(place: IdPlace) -> str:
    match place:
        case JsonField():
            return f"the field {place.path}"
        case HeaderId():
            return f"the header {place.name}"
        case RecordKey():
            return "the key"


def baseline_of(
    text: str,
    *,
    url: str | None = None,
    user: str | None = None,
    password: str | None = None,
    driver: str | None = None,
) -> Baseline:
    """Parse `topic:NAME`, `table:NAME`, `recomputation`, or a file format with a location. Raises WordsError.

    url, user, password, driver: of a table.
    """
    kind, _, name = text.strip().partition(":")
    if kind == "recomputation" and not name:
        return Recomputation()
    if kind == "topic" and name:
        return TopicBaseline(topic=name)
    if kind in tuple(FileFormat) and name:
        return FilesBaseline(format=FileFormat(kind), location=name)
    if kind == "table" and name:
        if not url:
            raise WordsError(f"`{text}`: a table requires the JDBC URL of its database")
        return TableBaseline(url=url, table=name, user=user or None, password=password or None, driver=driver or None)
    raise WordsError(
        f"`{text}`: expected topic:NAME, avro:LOCATION, parquet:LOCATION, csv:LOCATION, table:NAME or recomputation"
    )


def baseline_text(baseline: Baseline) -> str:
    """Return the text that `baseline_of` parses as `baseline`."""
    match baseline:
        case TopicBaseline():
            return f"topic:{baseline.topic}"
        case FilesBaseline():
            return f"{baseline.format}:{baseline.location}"
        case TableBaseline():
            return f"table:{baseline.table}"
        case Recomputation():
            return "recomputation"


def event_time_words(times: EventTimes) -> str:
    """Return a text such as `from 2026-01-31 12:00:05 to 2026-01-31 13:00:00 UTC`, or `none`."""
    if times.start_ms is not None and times.end_ms is not None and times.start_ms >= times.end_ms:
        return "none"
    begin = "the beginning" if times.start_ms is None else _at(times.start_ms)
    return f"from {begin} to {'the end' if times.end_ms is None else f'{_at(times.end_ms)} UTC'}"


def _at(at_ms: int) -> str:
    return f"{moment_of_ms(at_ms).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def window_words(window: Window) -> str:
    match window:
        case TimeWindow():
            begin, end = moment_of_ms(window.start_ms).astimezone(UTC), moment_of_ms(window.end_ms).astimezone(UTC)
            until = f"{end:%H:%M}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
            return f"{begin:%Y-%m-%d %H:%M} to {until} UTC"
        case OffsetWindow():
            number = len(window.ranges)
            return f"offsets of {number} partition{'' if number == 1 else 's'}"
        case _:
            return "everything"
