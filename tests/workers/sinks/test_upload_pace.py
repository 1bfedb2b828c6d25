"""How much a checkpoint may hold, by what those before it took."""

from __future__ import annotations

import pytest

from workers.loop.records.batching import MAX_RECORDS
from workers.sinks.upload_pace import Load, UploadPace

WITHIN_S = 60.0
KB = 1_000


def most_files(pace: UploadPace) -> int:
    """With files of no size, that is by their number alone."""
    return next(files for files in range(1, 100_000) if pace.is_enough(Load(files, 0)))


def uploads(pace: UploadPace, *, files_per_s: float, checkpoints: int, bytes_of_one: int = KB) -> list[int]:
    """Checkpoints that are filled until it is enough, into a store of this speed; how many files each committed."""
    committed: list[int] = []
    for _ in range(checkpoints):
        files = next(files for files in range(1, 100_000) if pace.is_enough(Load(files, files * bytes_of_one)))
        load = Load(files, files * bytes_of_one)
        if files / files_per_s > WITHIN_S:
            done = int(WITHIN_S * files_per_s)
            pace.was_late(load, uploaded=Load(done, done * bytes_of_one))
            committed.append(0)
        else:
            pace.took(load, files / files_per_s)
            committed.append(files)
    return committed


@pytest.mark.parametrize("files_per_s", [0.5, 3, 40, 80, 1_000, 5_000])
def test_checkpoints_are_committed_at_every_speed_of_the_store(files_per_s: float) -> None:
    committed = uploads(UploadPace(WITHIN_S), files_per_s=files_per_s, checkpoints=20)
    assert all(committed[1:])
    # Neither too near to the time that there is, nor so small that the way to the store is most of it.
    assert min(20_000, WITHIN_S * files_per_s / 8) <= committed[-1] <= WITHIN_S * files_per_s * 0.75


def test_a_fast_store_is_given_more_but_no_transaction_gets_references_without_end() -> None:
    pace = UploadPace(WITHIN_S)
    assert most_files(pace) == 5_000
    assert uploads(pace, files_per_s=1e6, checkpoints=10)[-1] == 20_000


def test_small_checkpoints_change_nothing() -> None:
    pace = UploadPace(WITHIN_S)
    for seconds in (0.01, 3.0, 14.0):
        pace.took(Load(1, KB), seconds)
    assert most_files(pace) == 5_000
    assert not pace.is_enough(Load(1, 10**12))


def test_a_store_that_was_away_is_given_as_much_as_before_after_a_while() -> None:
    pace = UploadPace(WITHIN_S)
    for _ in range(4):
        pace.was_late(Load(most_files(pace), 10**8), uploaded=Load(0, 0))
    assert most_files(pace) == 5_000 / 16 + 0.5
    assert pace.is_enough(Load(1, 10**8))
    committed = uploads(pace, files_per_s=1_000, checkpoints=12, bytes_of_one=10**6)
    assert committed[-1] >= 5_000


def test_few_large_files_are_bounded_by_their_bytes() -> None:
    pace = UploadPace(WITHIN_S)
    pace.was_late(Load(10, 10**9), uploaded=Load(4, 4 * 10**8))
    assert pace.is_enough(Load(1, 2 * 10**8))
    assert not pace.is_enough(Load(1, 2 * 10**8 - 1))


def in_batches(pace: UploadPace, *, files_per_s: float, checkpoints: int, values: int, bytes_of_one: int = 0) -> int:
    """Fill checkpoints as the loop does: a record, then batches of at most 2,000. Each ends when it is enough, or after
    100 batches, the rotation. Return the number of committed checkpoints."""
    committed = 0
    for _ in range(checkpoints):
        records = 1
        for _batch in range(100):
            load = Load(min(values, records), records * bytes_of_one, records)
            if pace.is_enough(load):
                break
            records += int(min(MAX_RECORDS, pace.most_records))
        load = Load(min(values, records), records * bytes_of_one, records)
        seconds = load.files / files_per_s
        if seconds > WITHIN_S:
            done = int(WITHIN_S * files_per_s) // 64 * 64
            pace.was_late(load, uploaded=Load(done, done * bytes_of_one))
        else:
            pace.took(load, seconds)
            committed += 1
    return committed


@pytest.mark.parametrize("files_per_s", [0.5, 3, 10, 33])
def test_batches_of_more_values_than_the_store_takes_in_time_become_smaller(files_per_s: float) -> None:
    """A checkpoint ends between two of them: the batch itself was too much, however soon it ended."""
    pace = UploadPace(WITHIN_S)
    in_batches(pace, files_per_s=files_per_s, checkpoints=15, values=100_000)
    assert in_batches(pace, files_per_s=files_per_s, checkpoints=10, values=100_000) == 10


def test_batches_of_few_values_are_large_again_soon_after_the_store_was_away() -> None:
    pace = UploadPace(WITHIN_S)
    for _ in range(20):
        pace.was_late(Load(10, 10**6, 10_000), uploaded=Load(0, 0))
    in_batches(pace, files_per_s=1_000, checkpoints=8, values=10, bytes_of_one=KB)
    assert in_batches(pace, files_per_s=1_000, checkpoints=5, values=10, bytes_of_one=KB) == 5
    assert pace.most_records >= MAX_RECORDS


def test_a_checkpoint_of_offsets_alone_says_nothing_of_batches() -> None:
    pace = UploadPace(WITHIN_S)
    pace.took(Load(0, 0, 0), 0.01)
    assert pace.most_records > 1e9
