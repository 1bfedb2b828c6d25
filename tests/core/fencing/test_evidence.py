"""Joining evidence: in any order, any number of times, and bounded."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.core.fencing.evidence import MAX_OF_A_SORT, ClientWord, CommandVerb, CommandWord, Evidence, merged
from app.core.runs.task import EventKind


def said(number: int) -> ClientWord:
    return ClientWord(
        event_id=str(number),
        kind=EventKind.ABORTED,
        at_ms=number,
        message="",
        run_id="run",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
    )


def commanded(number: int) -> CommandWord:
    return CommandWord(command_id=number, verb=CommandVerb.FENCE, at_ms=number, who="ann")


evidence = st.lists(st.builds(said, st.integers(0, 60)) | st.builds(commanded, st.integers(0, 60)), max_size=60)


@given(evidence, evidence, evidence)
def test_order_and_grouping_do_not_matter(a: list[Evidence], b: list[Evidence], c: list[Evidence]) -> None:
    assert merged(a, b) == merged(b, a) == merged(merged(a), merged(b)) == merged(merged(a, b), merged(a, b), b)
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


def test_answer_of_a_command_is_kept_in_any_order() -> None:
    bare, ended = commanded(1), msgspec.structs.replace(commanded(2), verb=CommandVerb.END)
    answered = msgspec.structs.replace(bare, producer_id=7, producer_epoch=2)
    written = msgspec.structs.replace(ended, partitions=("orders-0",))
    assert merged([bare, ended], [answered, written]) == merged([answered, written], [bare, ended])
    assert merged([bare, ended], [answered, written]) == (answered, written)


def test_oldest_and_newest_of_a_sort_are_kept() -> None:
    kept = merged(map(said, range(100)), [commanded(5)])
    assert [one.at_ms for one in kept if isinstance(one, ClientWord)] == [
        *range(MAX_OF_A_SORT),
        *range(100 - MAX_OF_A_SORT, 100),
    ]
    assert kept[-1] == commanded(5)


def test_evidence_is_stored_as_json_and_read_again() -> None:
    kept = merged([said(1)], [commanded(2)])
    stored = msgspec.json.encode(kept)
    assert msgspec.json.decode(stored, type=tuple[Evidence, ...]) == kept
