"""Reading records for invented brokers: the newest ones within the bounds, and partitions without an answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Brokers, TransactionalIds
from app.core.clusters.partition import Partition
from app.core.journals.log_look import Landmark, LogBounds, LogLook, LogStart, ReadBound
from app.core.journals.record_batch import RecordBatch
from app.kit.errors import UnavailableError
from app.products.topics.browsing import starts_of
from app.products.topics.record_filter import filter_of
from app.products.topics.service.records import CutDownload, RecordQuery, browse, download
from tests.core.journals.batches import batch_of

END = 5_000
REFUSED = Refused("Fetch of t-1", "no answer in time")


class Logs:
    """Partition 0 has END records and reads at most `most` of them; partition 1 answers if `is_whole`.

    grows: the records that are written during each read.
    """

    def __init__(self, *, most: int = END, is_whole: bool = True, grows: int = 0) -> None:
        self.most = most
        self.grows = grows
        self.is_whole = is_whole
        self.asked = 0

    async def read_partition_logs(
        self, connection: object, topic: str, starts: LogStart | Mapping[int, LogStart], bound: ReadBound, **_: Any
    ) -> dict[Partition, LogLook | Refused]:
        self.asked += 1
        chosen = starts if isinstance(starts, Mapping) else dict.fromkeys(range(2), starts)
        return {Partition(topic, number): self._read(number, start, bound) for number, start in chosen.items()}

    def _read(self, number: int, start: LogStart, bound: ReadBound) -> LogLook | Refused:
        if number == 1 and not self.is_whole:
            return REFUSED
        end = END + self.grows * self.asked if number == 0 else 0
        first = {Landmark.START: 0, Landmark.END: max(0, end - bound.before_end)}.get(cast(Any, start), start)
        assert isinstance(first, int)
        after = min(end, first + self.most)
        batches: list[RecordBatch] = [
            batch_of([(b"k", str(offset).encode())], base_offset=offset, timestamp_ms=offset)
            for offset in range(first, after)
        ]
        end += self.grows
        bounds = LogBounds(first_offset=0, last_stable_offset=end, high_watermark=end)
        return LogLook(start=first, next_offset=max(first, after), bounds=bounds, batches=tuple(batches))


async def ask_ids(producer_ids: Collection[int]) -> TransactionalIds:
    raise AssertionError(f"no record is transactional: {producer_ids}")


async def found(logs: Logs, query: RecordQuery) -> Any:
    return await browse(cast(Brokers, logs), {}, query, ask_ids=ask_ids)


@pytest.mark.parametrize("most", [END, 700, 150])
async def test_the_newest_records_are_those_before_the_end_for_any_size_of_them(most: int) -> None:
    logs = Logs(most=most)
    page = await found(logs, RecordQuery(topic="t", wanted=filter_of(value="9"), limit=3))
    assert [one.offset for one in page.records] == [4_997, 4_998, 4_999]
    assert [one.value.text for one in page.records][-1] == "4999"
    assert page.is_at_end
    assert logs.asked <= 4


async def test_an_end_that_cannot_be_reached_is_named_and_the_next_answer_goes_on() -> None:
    logs = Logs(most=2, grows=100)
    page = await found(logs, RecordQuery(topic="t", wanted=filter_of(value="9")))
    assert not page.is_at_end
    assert any("The end was not reached" in note for note in page.notes)
    offset = starts_of(page.next_cursor)[0]
    further = await found(logs, RecordQuery(topic="t", after=page.next_cursor))
    assert further.records[0].offset == offset


async def test_a_partition_without_an_answer_is_named_and_keeps_its_place() -> None:
    logs = Logs(is_whole=False)
    page = await found(logs, RecordQuery(topic="t", start=Landmark.START, limit=5))
    assert [one.offset for one in page.records] == [0, 1, 2, 3, 4]
    assert page.notes == (REFUSED.sentence,)
    assert starts_of(page.next_cursor) == {0: 5, 1: Landmark.START}
    last = await found(logs, RecordQuery(topic="t", after=page.next_cursor, wanted=filter_of(value="nothing")))
    # Not all was read, though the other partition is at its end.
    assert not last.is_at_end
    logs.is_whole = True
    assert (await found(logs, RecordQuery(topic="t", after=last.next_cursor))).is_at_end
    logs.is_whole = False
    with pytest.raises(UnavailableError, match="no partition of t could be read"):
        await found(logs, RecordQuery(topic="t", partition=1))


@pytest.mark.parametrize(
    ("query", "records", "reason"),
    [
        (RecordQuery(topic="t", partition=0, start=Landmark.START, limit=10_000), END, None),
        (RecordQuery(topic="t", partition=0, start=Landmark.START, limit=700), 700, "700 records are the bound"),
        (RecordQuery(topic="t", partition=0, start=Landmark.END, limit=700), 700, None),
        (RecordQuery(topic="t", start=Landmark.START, limit=10_000), END, "no answer in time"),
    ],
)
async def test_a_download_is_whole_or_has_the_reason_in_its_last_line(
    query: RecordQuery, records: int, reason: str | None
) -> None:
    logs = Logs(is_whole=False)
    lines = [one async for part in download(cast(Brokers, logs), {}, query, ask_ids=ask_ids) for one in part]
    cut = [one for one in lines if isinstance(one, CutDownload)]
    offsets = [one.offset for one in lines if not isinstance(one, CutDownload)]
    assert offsets == list(range(END))[-records:] if query.start is Landmark.END else list(range(records))
    assert [reason is not None and reason in one.reason for one in cut] == ([] if reason is None else [True])
    assert not cut or lines[-1] is cut[0]
