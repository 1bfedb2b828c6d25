"""Messages with header names that the client cannot decode. The client itself: test_odd_records.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messages import a_message
from workers.transforms.carrying import TimestampError, as_they_are
from workers.transforms.headers import HeaderNameError, read_headers


def test_headers_of_usual_messages_are_read_as_they_are() -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None)]
    assert read_headers([a_message(b"", headers=headers), a_message(b"")]) == ([headers, None], {})


def test_timestamp_that_the_client_takes_for_now_is_named_by_the_index_of_its_record() -> None:
    usual, unset = a_message(b"", timestamp=(1, 1)), a_message(b"", timestamp=(1, 0))
    timestamps, _, unfit = as_they_are([usual, unset, usual])
    assert timestamps == [1, 0, 1]
    assert [(index, type(error)) for index, error in unfit.items()] == [(1, TimestampError)]


def test_every_message_after_the_first_with_such_a_name_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        """Raises once, as the client does, and then gives what it has."""

        def __init__(self, *, is_odd: bool) -> None:
            self._pairs: Any = [("ok", b"1")]
            self._raises = is_odd

        def headers(self) -> Any:
            if self._raises:
                self._raises = False
                raise SystemError
            return self._pairs

        def set_headers(self, pairs: Any) -> None:
            self._pairs = pairs

    monkeypatch.setattr("workers.transforms.headers.Message", Odd)
    messages: Any = [Odd(is_odd=number in (1, 2, 4)) for number in range(5)]
    headers, found = read_headers(messages)
    assert headers == [[("ok", b"1")]] * 5
    assert {index: type(error) for index, error in found.items()} == dict.fromkeys((1, 2, 4), HeaderNameError)
