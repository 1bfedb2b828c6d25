"""A process that was away for a session asks for leave before it takes ids of partitions again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.core.pipelines.pipeline import OffsetFencing, ProcessingGuarantee
from tests.exactly_once.conftest import MakePipeline
from tests.exactly_once.test_lane_of_each import id_of, journal_of
from tests.support.tasks import TaskProcess, running
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd

GROUP_ONLY: dict[str, Any] = {
    "processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE,
    "offset_fencing": OffsetFencing.GROUP_ONLY,
    "session_timeout_ms": 6_000,
}


@pytest.mark.parametrize("word", ["no", ""], ids=["the server names another", "the server is away"])
def test_task_away_for_a_session_takes_no_id_unless_it_may(
    make_pipeline: MakePipeline, tmp_path: Path, word: str
) -> None:
    """The group assigns its partition to it again; its lease may be over. Without an answer it continues (rule 8)."""
    pipeline = make_pipeline(partitions=2, **GROUP_ONLY)
    pipeline.feed(100)
    sleeper = TaskProcess(pipeline.specification(), tmp_path, environment={"FENCELINE_TEST_IS_CURRENT": word})
    try:
        sleeper.wait_for_records(200)
        sleeper.freeze()
        with running(pipeline.specification(task=1)) as taker:
            taker.wait_for_partitions(2)
            taken = [journal_of(pipeline, id_of(pipeline, partition))[-1].producer_epoch for partition in range(2)]
            sleeper.thaw()
            if word:
                assert sleeper.join().end is TaskEnd.SUPERSEDED
                taker.wait_for_partitions(2)
            else:
                taker.wait_for_partitions(1)
                sleeper.wait_until(lambda: len(sleeper.last().partitions) == 1, "a partition of its own")
            pipeline.feed(100)

            def is_read() -> bool:
                return taker.control.last.counters.records_in + sleeper.last().counters.records_in >= 400

            wait_for(is_read, 30, "the second half")
            now = [journal_of(pipeline, id_of(pipeline, partition))[-1].producer_epoch for partition in range(2)]
            # The one init is the taker's, to which the partition came back; or the sleeper's, which has it now.
            assert sum(now) - sum(taken) == 1
            held = {one.partition: one.producer_epoch for one in taker.control.last.partitions}
            assert held == ({0: now[0], 1: now[1]} if word else held)
            assert len(held) == (2 if word else 1)
    finally:
        sleeper.close()
    pipeline.assert_whole()
