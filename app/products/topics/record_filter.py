"""Choose records by key, value, header and outcome."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from app.core.journals.log_entries import EntryState
from app.core.journals.record_batch import BatchRecord
from app.kit.errors import InvalidError

LONGEST_FILTER = 500
STATES = (EntryState.PLAIN, EntryState.OPEN, EntryState.COMMITTED, EntryState.ABORTED, EntryState.UNKNOWN)
"""The outcomes of a batch that has records."""

_COMMITTED = (EntryState.PLAIN, EntryState.COMMITTED)

_FIELD = re.compile(r"(?P<path>[^\s=.\"]+(?:\.[^\s=.\"]+)*) = (?P<wanted>.+)", re.DOTALL)
_Test = Callable[[bytes | None], bool]


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Empty parts select every record. state: one of STATES.

    key, value: `customer.id = 42` compares a field of JSON, with blanks around `=`; a number in the path is an index of
    a list. Any other text, and every text in double quotes, is a part of the bytes, case included.
    is_committed: only records that read_committed consumers get.
    header: `name = text` compares one header; any other text is a part of a header's name or value.
    """

    key: str = ""
    value: str = ""
    header: str = ""
    state: EntryState | None = None
    is_committed: bool = False

    def takes(self, state: EntryState) -> bool:
        """Return whether it selects batches of this outcome."""
        return (self.state is None or state == self.state) and (not self.is_committed or state in _COMMITTED)

    @property
    def is_empty(self) -> bool:
        return not (self.key or self.value or self.header or self.state)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that select, for the command log, which must not quote records."""
        return tuple(name for name in ("key", "value", "header", "state") if getattr(self, name))


def filter_of(*, key: str = "", value: str = "", header: str = "", state: str = "") -> RecordFilter:
    """Raises InvalidError with the field of a wrong part."""
    for name, text in (("key", key), ("value", value), ("header", header)):
        if len(text) > LONGEST_FILTER:
            raise InvalidError(f"the filter has {len(text)} characters; at most {LONGEST_FILTER}", field=name)
    if state and state not in STATES:
        raise InvalidError(f"{state[:80]} is no outcome: choose one of {', '.join(STATES)}", field="state")
    return RecordFilter(key=key, value=value, header=header, state=EntryState(state) if state else None)


def matcher_of(wanted: RecordFilter) -> Callable[[BatchRecord], bool]:
    """Return the test of one record; the outcome is tested for its batch."""
    key, value, header = _test_of(wanted.key), _test_of(wanted.value), _header_test_of(wanted.header)

    def is_wanted(record: BatchRecord) -> bool:
        return key(record.key) and value(record.value) and header(record)

    return is_wanted


def _test_of(text: str) -> _Test:
    if not text:
        return lambda _: True
    if (field := _FIELD.fullmatch(text)) is not None and not text.startswith('"'):
        return _field_test(field["path"].split("."), field["wanted"].strip())
    part = _unquoted(text)
    return lambda data: data is not None and part in data


def _field_test(path: list[str], wanted: str) -> _Test:
    expected: tuple[Any, ...] = (wanted,)
    # A text needs no quotes.
    with suppress(msgspec.DecodeError):
        expected = (wanted, msgspec.json.decode(wanted))

    def is_equal(data: bytes | None) -> bool:
        if data is None:
            return False
        try:
            found: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        for name in path:
            if isinstance(found, dict) and name in found:
                found = cast("dict[str, Any]", found)[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(cast("list[Any]", found)):
                found = cast("list[Any]", found)[int(name)]
            else:
                return False
        # Python's True equals 1.
        return any(found == one and isinstance(found, bool) is isinstance(one, bool) for one in expected)

    return is_equal


def _header_test_of(text: str) -> Callable[[BatchRecord], bool]:
    if not text:
        return lambda _: True
    name, is_pair, wanted = text.partition(" = ")
    if is_pair and not text.startswith('"'):
        value = wanted.encode()
        return lambda record: any(one == name and found == value for one, found in record.headers)
    part = _unquoted(text)
    return lambda record: any(part in one.encode() or (found and part in found) for one, found in record.headers)


def _unquoted(text: str) -> bytes:
    is_quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return (text[1:-1] if is_quoted else text).encode("utf-8", "surrogatepass")
