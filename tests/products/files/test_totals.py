"""What is summed of files: by partition, by hour, by checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.kit.errors import InvalidError
from app.products.files.checkpoint import CheckpointPhase, checkpoints_of
from app.products.files.totals import Total, by_hour, by_partition, total_of
from app.products.files.written_file import WrittenFile, digest, partition_filter, partition_text
from tests.support.written_files import later, written


def some_file(user: str, records: int, checkpoint: int, minutes: int) -> WrittenFile:
    file = written(records=records, checkpoint=checkpoint, partition={"user": user})
    return later(file, timedelta(minutes=minutes))


FILES = st.lists(
    st.builds(
        some_file,
        user=st.sampled_from("abc"),
        records=st.integers(0, 50),
        checkpoint=st.integers(1, 3),
        minutes=st.integers(0, 300),
    )
)


@given(FILES)
def test_every_file_is_counted_once_in_each_sum(files: list[WrittenFile]) -> None:
    total = total_of(files)
    for sums in (
        [one.total for one in by_partition(files).values()],
        [one.total for one in by_hour(files)],
        [one.total for one in checkpoints_of(files).values()],
    ):
        assert sum(sums, start=Total()) == total


def test_partition_is_the_same_whatever_the_order_of_its_columns() -> None:
    one, other = ({"user": "a", "date": "b"}, {"date": "b", "user": "a"})
    assert len(by_partition([written(partition=one), written(partition=other)])) == 1
    assert digest(one) == digest(other)
    assert digest("ab", "c") != digest("a", "bc")


def test_hour_is_that_of_utc() -> None:
    at = datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    (hour,) = by_hour([written(referenced_at=at)])
    assert hour.hour == datetime(2025, 12, 31, 20, tzinfo=UTC)


def test_checkpoint_spans_its_files_and_its_phases_follow_each_other() -> None:
    first, second = written(1), written(2)
    second = replace(second, opened_at=second.opened_at + timedelta(seconds=20), committed_at=None)
    second = replace(second, uploaded_at=second.uploaded_at + timedelta(milliseconds=5))
    (one,) = checkpoints_of([second, first]).values()
    assert one.total.files == 2
    assert one.lengths_ms() == {
        CheckpointPhase.FILL: 30_000,
        CheckpointPhase.UPLOAD: 905,
        CheckpointPhase.REFERENCE: 7,
        CheckpointPhase.COMMIT: 8,
    }


def test_phase_that_was_not_measured_is_not_nought() -> None:
    (one,) = checkpoints_of([written(committed_at=None)]).values()
    assert one.lengths_ms()[CheckpointPhase.COMMIT] is None


def test_clocks_that_differ_make_no_phase_shorter_than_nothing() -> None:
    file = written()
    (one,) = checkpoints_of([replace(file, committed_at=file.referenced_at - timedelta(seconds=3))]).values()
    assert one.lengths_ms()[CheckpointPhase.COMMIT] == 0


def test_attempts_number_their_checkpoints_for_themselves() -> None:
    assert len(checkpoints_of([written(attempt="1.0"), written(attempt="1.1"), written(transactional_id="x")])) == 3


def test_partition_words_are_columns_with_values() -> None:
    assert partition_filter(["user=a=b", "date="]) == {"user": "a=b", "date": ""}
    for words, said in ((["user"], "column=value"), (["=x"], "column=value"), (["u=1", "u=2"], "two values of u")):
        with pytest.raises(InvalidError, match=said):
            partition_filter(words)


def test_partition_reads_in_the_order_of_the_definition() -> None:
    partition = {"date": "d", "user": "u", "a": "x"}
    assert partition_text(partition, ["user", "date", "hour"]) == "user=u, date=d, a=x"
    assert partition_text({}) == ""
