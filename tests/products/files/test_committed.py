"""What readers with `read_committed` get of a log, in whatever portions: every message once, none that is aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.log_entries import EntryState
from app.core.journals.record_batch import MarkerType, UnreadableBatch
from app.products.files.committed import committed_messages
from app.products.files.reading import TopicMessage
from tests.core.journals.batches import batch_of
from tests.core.journals.logs import WrittenLog

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 3)),
        st.tuples(st.just("data"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.sampled_from([MarkerType.COMMIT, MarkerType.ABORT]), st.integers(1, 3)),
    ),
    max_size=25,
)


def written(steps: Sequence[Any]) -> WrittenLog:
    log = WrittenLog()
    for kind, number, *more in steps:
        if kind == "plain":
            log.plain(records=number)
        elif kind == "data":
            log.data(number, records=more[0])
        else:
            log.mark(number, kind)
    return log


def read_whole(log: WrittenLog, *, most: int, batches_an_answer: int = 100) -> list[TopicMessage]:
    """In as many answers as it takes, each as a broker gives it at read_committed."""
    found: list[TopicMessage] = []
    position = 0
    while position < log.last_stable_offset:
        first = next(index for index, batch in enumerate(log.batches) if batch.last_offset >= position)
        stable = [batch for batch in log.batches[first:] if batch.last_offset < log.last_stable_offset]
        answer = stable[:batches_an_answer]
        until = answer[-1].last_offset
        aborted = [one for one, last in log.aborted if last >= position and one.first_offset <= until]
        messages, after = committed_messages(answer, aborted, position=position, most=most)
        assert after > position, "reading stands still"
        found += messages
        position = after
    return found


@given(steps=STEPS, most=st.integers(1, 10), batches_an_answer=st.integers(1, 6))
def test_every_committed_message_is_read_once_and_no_aborted_one(
    steps: Sequence[Any], most: int, batches_an_answer: int
) -> None:
    log = written(steps)
    expected = [
        offset
        for batch, truth in zip(log.batches, log.truth, strict=True)
        if truth in (EntryState.PLAIN, EntryState.COMMITTED) and batch.last_offset < log.last_stable_offset
        for offset in range(batch.base_offset, batch.last_offset + 1)
    ]
    found = read_whole(log, most=most, batches_an_answer=batches_an_answer)
    assert [message.offset for message in found] == expected


def test_broker_that_says_nothing_of_an_abort_shows_it() -> None:
    """The control: without the broker's list an aborted message looks like a committed one."""
    log = written([("data", 1, 2), (MarkerType.ABORT, 1)])
    messages, _ = committed_messages(log.batches, [], position=0, most=10)
    assert len(messages) == 2
    assert read_whole(log, most=10) == []


def test_commit_is_told_with_the_messages_that_it_decides() -> None:
    log = written([("data", 1, 1), ("data", 2, 1), ("plain", 1), (MarkerType.COMMIT, 2), (MarkerType.COMMIT, 1)])
    assert [message.committed_ms for message in read_whole(log, most=10)] == [1_000, 1_000, None]


def test_commit_behind_the_last_message_that_is_taken_is_read_too() -> None:
    log = written([("data", 1, 1), (MarkerType.COMMIT, 1), ("data", 1, 1), (MarkerType.COMMIT, 1)])
    messages, after = committed_messages(log.batches, [], position=0, most=1)
    assert ([one.committed_ms for one in messages], after) == ([1_000], 2)


def test_commit_in_another_answer_is_not_known() -> None:
    log = written([("data", 1, 1), (MarkerType.COMMIT, 1)])
    assert [one.committed_ms for one in read_whole(log, most=10, batches_an_answer=1)] == [None]


def test_batch_that_begins_earlier_is_read_from_where_it_was_asked_for() -> None:
    log = written([("plain", 5)])
    messages, after = committed_messages(log.batches, [], position=3, most=10)
    assert ([one.offset for one in messages], after) == ([3, 4], 5)


@pytest.mark.parametrize(
    "broken", [UnreadableBatch(6, 60, "message format 1"), batch_of([(b"k", b"v")], base_offset=6)]
)
def test_batch_that_cannot_be_read_is_told_and_passed(broken: Any) -> None:
    if not isinstance(broken, UnreadableBatch):
        broken = type(broken)(
            **{name: getattr(broken, name) for name in broken.__struct_fields__} | {"records": b"\x01"}
        )
    messages, after = committed_messages([broken], [], position=6, most=10)
    (one,) = messages
    assert one.value is None
    assert one.unreadable
    assert after == 7


def test_nothing_read_moves_nothing() -> None:
    assert committed_messages([], [], position=8, most=10) == ((), 8)
