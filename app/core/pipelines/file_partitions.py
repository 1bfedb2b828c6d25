"""The partition columns of a record's file: the value of each column, and the folder of these values.

The values are texts, as in a reference. The folder is `<column>=<value>/…`, the layout of tables in Hive and Spark.
Everything except letters, digits, `.`, `_` and `-` is percent-escaped. So every other list of values has another
folder, and none leads out of the root.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import methodcaller
from typing import Any, Final

from app.core.avro_schemas.shape import MAX_LONG, MIN_LONG
from app.core.pipelines.pipeline import ByDate, ByField, ByHour
from app.core.transforms import field_path
from app.core.transforms.comparison import kind_of
from app.core.transforms.field_path import MISSING, JsonObject

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of a null or missing field, which Hive and Spark read as null. A text that consists of it, after any number
of underscores, gets one underscore more in front, so that no text is read as null."""
MAX_PART_LENGTH: Final = 100
"""The longest name or value of a column in a path, in characters. A longer one is cut, and ends in `~` and 128 bits of
a hash."""

_HOUR_MS: Final = 3_600_000
_FIRST_HOUR: Final = -719_162 * 24
_LAST_HOUR: Final = 2_932_897 * 24 - 1
"""The years 1 to 9999."""
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_HOURS: Final = tuple(f"{hour:02}" for hour in range(24))
_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]")
_LIKE_NULL = re.compile(rf"_*{NULL}")
_HASH_DIGITS: Final = 32

PartitionColumns = Sequence[ByField | ByDate | ByHour]


class PartitionError(ValueError):
    """A record without a partition is a bad record; the message has the reason."""


class FilePartitions:
    """The partition columns of a file sink, compiled once.

    names: of the columns, in order.
    """

    def __init__(self, columns: PartitionColumns, *, event_time: str | None) -> None:
        """event_time: the path of its field; None: the event time is the record's timestamp in Kafka.

        Raises FieldPathError for a text that is not a path.
        """
        self.names = tuple(column.name for column in columns)
        self._columns = [_compile(column) for column in columns]
        needs_time = any(not isinstance(column, ByField) for column in columns)
        self._hour_of = _event_hour(event_time) if needs_time else None

    def values(self, record: JsonObject, timestamp_ms: int | None) -> tuple[str, ...]:
        """Return the values of the columns for a decoded record; timestamp_ms is Kafka's, None if it has none.

        Raises PartitionError for a record without a time that is needed, and for one with an object or a list in a
        column. The event time is read only if a column needs it.
        """
        hour = 0 if self._hour_of is None else self._hour_of(record, timestamp_ms)
        return tuple([column(record, hour) for column in self._columns])

    def folder(self, values: tuple[str, ...]) -> str:
        """Return the folder of these values below the pipeline's: without a slash at its ends, empty without
        columns.
        """
        return "/".join(f"{escape(name)}={escape(value)}" for name, value in zip(self.names, values, strict=True))


def escape(text: str) -> str:
    """Return the text as a part of a path, unique for every text, of at most MAX_PART_LENGTH characters."""
    encoded = text.encode()
    escaped = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], encoded).decode("ascii")
    if len(escaped) <= MAX_PART_LENGTH:
        return escaped
    cut = escaped[: MAX_PART_LENGTH - 1 - _HASH_DIGITS]
    whole = cut[:-1] if cut[-1] == "%" else cut[:-2] if cut[-2] == "%" else cut
    return f"{whole}~{hashlib.sha256(encoded).hexdigest()[:_HASH_DIGITS]}"


_Column = Callable[[JsonObject, int], str]


def _compile(column: ByField | ByDate | ByHour) -> _Column:
    match column:
        case ByDate():
            return lambda _, hour: _day(hour // 24)
        case ByHour():
            return lambda _, hour: _HOURS[hour % 24]
        case ByField():
            return _field(column.field)


def _field(path: str) -> _Column:
    names = field_path.parse(path)
    # Missing is as good as null here, so the dictionary's own `get` will do: the call of a function less.
    # A missing field counts as null here, so the dictionary's own `get` suffices and saves a call.
    get: Callable[[JsonObject], Any] = methodcaller("get", names[0]) if len(names) == 1 else field_path.getter(names)

    def text(record: JsonObject, _: int) -> str:
        value = get(record)
        return value if type(value) is str and not value.endswith(NULL) else _text(value, path)

    return text


def _text(value: Any, path: str) -> str:
    if type(value) is str:
        return f"_{value}" if _LIKE_NULL.fullmatch(value) else value
    if value is None or value is MISSING:
        return NULL
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is float or (type(value) is int and MIN_LONG <= value <= MAX_LONG):
        return str(value)
    if type(value) is int:
        raise PartitionError(f"`{path}` is an integer beyond 64 bits; write it as text")
    raise PartitionError(f"`{path}` is {kind_of(value)}; files are partitioned by texts, numbers, true and false")


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def _event_hour(path: str | None) -> Callable[[JsonObject, int | None], int]:
    """Return a function from a record and its timestamp to the hour of the event time, counted from 1970."""
    if path is None:
        return _hour_of_timestamp
    get = field_path.getter(field_path.parse(path))

    def hour_of(record: JsonObject, _: int | None) -> int:
        value: Any = get(record)
        if type(value) is int:
            hour = value // _HOUR_MS
            if _FIRST_HOUR <= hour <= _LAST_HOUR:
                return hour
            raise PartitionError(f"the event time `{path}` is {value} ms, which is outside the years 1 to 9999")
        if type(value) is str:
            return _hour_of_text(value, path)
        found = "missing" if value is MISSING else f"{kind_of(value)}{f' ({value})' if type(value) is float else ''}"
        raise PartitionError(
            f"the event time `{path}` is {found}; it is milliseconds since 1970, a whole number, or an ISO 8601 text"
        )

    return hour_of


def _hour_of_timestamp(_: JsonObject, timestamp_ms: int | None) -> int:
    if timestamp_ms is None:
        raise PartitionError("the record has no timestamp, and no field is named for the event time")
    hour = timestamp_ms // _HOUR_MS
    if not _FIRST_HOUR <= hour <= _LAST_HOUR:
        raise PartitionError(f"the record's timestamp is {timestamp_ms} ms, which is outside the years 1 to 9999")
    return hour


def _hour_of_text(text: str, path: str) -> int:
    try:
        time = datetime.fromisoformat(text)
        offset = time.utcoffset()
        if offset:
            time = (time - offset).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        shown = text if len(text) <= 50 else f"{text[:50]}…"
        raise PartitionError(
            f"the event time `{path}` is {shown!r}, which is no ISO 8601 time of the years 1 to 9999"
        ) from None
    return (time.toordinal() - _EPOCH_DAY) * 24 + time.hour
