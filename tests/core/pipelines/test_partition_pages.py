"""The brokers' report of a pipeline's partitions, beside that of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from app.core.clusters.brokers import Brokers, PartitionOffsets
from app.core.clusters.partition import Partition
from app.core.journals import group_records
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.service.held_back import HeldBack
from app.core.pipelines.pages.pipelines import beside
from app.core.pipelines.pages.tab_pages import timeline_beside
from app.core.wiring import Wiring
from tests.support import page_samples as samples
from tests.support.observing import NOW_MS, cluster, generation_batch, hear, state_of, transaction_batch


class Ends:
    """Brokers where 1,204 offsets of every partition wait."""

    async def offsets_of_each(
        self, connection: Mapping[str, str], partitions: Collection[Partition], **_: Any
    ) -> dict[Partition, PartitionOffsets]:
        return {at: PartitionOffsets(earliest=0, last_stable=10, high_watermark=1_214) for at in partitions}


async def test_partition_has_the_transaction_of_its_id_and_its_blocked_records(wiring: Wiring) -> None:
    now_s = 0.0
    wiring = replace(wiring, brokers=cast(Brokers, Ends()), held_back=HeldBack(monotonic=lambda: now_s))
    live = cluster()
    first, second = (f"fl.t.delayed-flights.{ordinal}.0" for ordinal in range(2))
    hear(
        live,
        transaction_batch(first, state_of(), at=0),
        transaction_batch(second, state_of(TransactionStatus.COMPLETE_COMMIT), at=1),
    )
    # The page's cluster has a name of its own.
    wiring.observations.publish(msgspec.structs.replace(live.snapshot(now_ms=0), cluster=samples.CLUSTER.name))
    view = samples.pipeline_view(samples.run())
    shown = beside(wiring, view)
    assert [one["state"] for one in shown.values()] == ["Ongoing", "CompleteCommit"] * 2
    assert [one["opened_at"] is not None for one in shown.values()] == [True, False] * 2
    # The page does not wait for brokers: their answer is there for the next view, after two polls.
    assert {one["held_back"] for one in shown.values()} == {None}
    await wiring.held_back.settled()
    now_s += 1
    assert {one["held_back"] for one in beside(wiring, view).values()} == {None}
    await wiring.held_back.settled()
    assert {one["held_back"] for one in beside(wiring, view).values()} == {1_204}
    await wiring.held_back.close()


def test_rebalances_of_the_group_and_epochs_of_its_ids_share_a_timeline() -> None:
    live = cluster()
    name = "fl.t.delayed-flights.0.0"
    hear(
        live,
        transaction_batch(name, state_of(epoch=4, changed_ms=NOW_MS - 90_000), at=0),
        transaction_batch(name, state_of(TransactionStatus.EMPTY, epoch=6, changed_ms=NOW_MS - 60_000), at=1),
        transaction_batch("somebody.else", state_of(), at=2),
    )
    hear(live, generation_batch("delayed-flights", 17, at=0, at_ms=NOW_MS - 60_000), topic=group_records.TOPIC)
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    snapshot = live.snapshot(now_ms=NOW_MS)
    drawn = timeline_beside(snapshot, "delayed-flights", [name, "not.there"], [samples.fencing_line()], now=now)
    assert drawn is not None
    group, one = drawn.lanes
    assert (group.name, one.name) == ("delayed-flights", name)
    assert [bar.title for bar in group.bars] == ["generation 17: members 1"]
    assert [bar.title.partition(",")[0] for bar in one.bars] == ["7:4", "7:6"]
    # The takeover and the rebalance that it came with stand above each other.
    assert one.bars[1].left == group.bars[0].left
