"""The lag of groups for a command without a server: records at once, seconds and states from two samples on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from app.core.clusters.partition import Partition
from app.core.journals.live_groups import LiveGroup
from app.core.lag.book import LagBook, positions_of
from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, PartitionLag
from app.core.lag.service import as_answer
from app.core.lag.wording import seconds_of
from app.edges.kafka.cli.cluster import DirectCluster, now_ms
from app.edges.kafka.cli.direct import ask
from app.kit.errors import FencelineError
from app.kit.words import number

MOST_PARTITIONS = 5_000
"""The most partitions of all shown groups; the lag of others is not known."""
PERIOD_MS = 2_000
STATE_STYLES = {"healthy": "green", "slow": "yellow", "blocked": "red", "not reading": "red"}


class DirectLag:
    """Samples the partitions of the shown groups with each call. A watching command learns their movement.

    remark: why lag is not known, or of which partitions.
    """

    def __init__(self, cluster: DirectCluster) -> None:
        self._connection = cluster.connection
        self._book = LagBook()
        self._samples = 0
        self.remark = ""

    def sample(self, groups: Sequence[LiveGroup]) -> None:
        wanted = sorted({at for one in groups for at in positions_of(one)})
        self.remark = (
            f"lag of {MOST_PARTITIONS:,} of {len(wanted):,} partitions" if len(wanted) > MOST_PARTITIONS else ""
        )
        at_ms = now_ms()
        due = self._book.due(wanted, MOST_PARTITIONS)
        if not due:
            return
        try:
            answers = ask(lambda brokers: brokers.offsets_of_each(self._connection, due))
        except FencelineError as error:
            self.remark = f"lag is not known: {error.message}"
            return
        self._samples += 1
        self._book.note(
            groups, {at: as_answer(one) for at, one in answers.items()}, at_ms=at_ms, period_ms=PERIOD_MS, paused={}
        )

    def of(self, group: LiveGroup) -> GroupLag | None:
        found = self._book.groups.get(group.group)
        return None if found is None or found.lag_records is None else found

    def rows(self, group: LiveGroup) -> list[PartitionLag]:
        return self._book.lags(group, now_ms=now_ms(), period_ms=PERIOD_MS)

    def seconds(self, one: GroupLag | PartitionLag) -> str | None:
        """Return the lag in time; None after the first sample, which has none unless the lag is 0."""
        return None if self._samples < 2 and one.lag_records else seconds_of(one)

    def document(self, one: GroupLag | PartitionLag) -> dict[str, Any]:
        is_known = self.seconds(one) is not None and one.lag_ms is not None
        return {
            "state": str(one.state),
            "lag_records": one.lag_records,
            "lag_s": (one.lag_ms or 0) / 1000 if is_known else None,
            "blocked_records": one.blocked,
        }


def state_text(state: LagState | str) -> Text:
    return Text(str(state), style=STATE_STYLES.get(str(state), "dim"))


def lag_columns(lag: DirectLag, group: LiveGroup) -> tuple[Text | None, str | None, str | None]:
    """Return state, records and time of a group."""
    found = lag.of(group)
    return (
        (None, None, None)
        if found is None
        else (state_text(found.state), number(found.lag_records), lag.seconds(found))
    )


def partition_columns(lag: DirectLag, rows: Mapping[Partition, PartitionLag], at: Partition) -> tuple[Any, ...]:
    """Return state, records, time, last stable offset and end of a partition."""
    found = rows.get(at)
    if found is None:
        return (None,) * 5
    return (
        state_text(found.state),
        number(found.lag_records),
        lag.seconds(found),
        number(found.last_stable),
        number(found.end),
    )
