"""The newest snapshot of every observed cluster, and the waits for newer ones.

This server's observer reads the brokers once, for any number of viewers, and publishes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from app.core.blocked.readers import BlockedReport
from app.core.hanging.report import SearchReport
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot

_LOOK_AGAIN_S = 0.1
OFF = "the observer is switched off by the setting `observe`"


def notice_of(cluster: str) -> str:
    """Return the notice of the change feed for a change of a cluster's transactions or groups."""
    return f"observed:{cluster}"


class Observations:
    """Used on the server's event loop only.

    announce: called with `notice_of` each changed cluster, for the pages' event streams.
    """

    def __init__(self, *, is_on: bool, announce: Callable[[str], None] = lambda _: None) -> None:
        self._is_on = is_on
        self._announce = announce
        self._snapshots: dict[str, Snapshot] = {}
        self._searches: dict[str, SearchReport] = {}
        self._blocked: dict[str, BlockedReport] = {}
        self._changed: dict[str, asyncio.Event] = {}

    def publish(self, snapshot: Snapshot) -> None:
        """Publish a newer snapshot; waiting viewers wake up if its number is new."""
        before = self._snapshots.get(snapshot.cluster)
        self._snapshots[snapshot.cluster] = snapshot
        if before is None or before.number != snapshot.number:
            self._wake(snapshot.cluster)

    def forget(self, cluster: str) -> None:
        """The cluster is no longer observed."""
        self._blocked.pop(cluster, None)
        if self._snapshots.pop(cluster, None) is not None:
            self._wake(cluster)

    def all(self) -> list[Snapshot]:
        """By the cluster's name."""
        return [self._snapshots[name] for name in sorted(self._snapshots)]

    def of(self, cluster: str) -> Snapshot:
        """Return the newest one; before the first one, an empty one with the reason."""
        found = self._snapshots.get(cluster)
        if found is not None:
            return found
        phase, problem = (ReadingPhase.CONNECTING, "") if self._is_on else (ReadingPhase.OFF, OFF)
        transactions, groups = (
            JournalStatus(topic=topic, phase=phase, phase_since_ms=-1, problem=problem) for topic in JOURNALS
        )
        return Snapshot(cluster=cluster, number=0, at_ms=-1, transaction_journal=transactions, group_journal=groups)

    async def newer(self, cluster: str, *, than: int, timeout_s: float) -> Snapshot:
        """Return the newest one as soon as its number is not `than`, or after `timeout_s`. Many changes are one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.of(cluster).number == than:
                    await self._changed.setdefault(cluster, asyncio.Event()).wait()
        return self.of(cluster)

    async def until(self, cluster: str, is_enough: Callable[[Snapshot], bool], *, timeout_s: float) -> Snapshot:
        """Return the newest one as soon as it is enough, or after `timeout_s`."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not is_enough(snapshot := self.of(cluster)) and asyncio.get_running_loop().time() < deadline:
            # Snapshots with new positions only are published too, and wake no viewer.
            await self.newer(cluster, than=snapshot.number, timeout_s=_LOOK_AGAIN_S)
        return self.of(cluster)

    def note_search(self, report: SearchReport) -> None:
        """Publish the results of the search for hanging transactions of a cluster."""
        before = self._searches.get(report.cluster)
        self._searches[report.cluster] = report
        if before is None or before.shown != report.shown:
            self._announce(notice_of(report.cluster))

    def forget_search(self, cluster: str) -> None:
        """The cluster is no longer searched."""
        if self._searches.pop(cluster, None) is not None:
            self._announce(notice_of(cluster))

    def search_of(self, cluster: str) -> SearchReport:
        """Return the newest one; before the first one, an empty one with the reason."""
        problem = "" if self._is_on else OFF
        return self._searches.get(cluster) or SearchReport(cluster=cluster, problem=problem)

    def searches(self) -> list[SearchReport]:
        """By the cluster's name."""
        return [self._searches[name] for name in sorted(self._searches)]

    def note_blocked(self, report: BlockedReport) -> None:
        """Publish the blocked readers of a cluster."""
        before = self.blocked_of(report.cluster)
        self._blocked[report.cluster] = report
        if before.shown != report.shown:
            self._announce(notice_of(report.cluster))

    def blocked_of(self, cluster: str) -> BlockedReport:
        """Return the newest report; before the first one, an empty one with the reason."""
        return self._blocked.get(cluster) or BlockedReport(cluster=cluster, problem="" if self._is_on else OFF)

    def blocked(self) -> list[BlockedReport]:
        """The reports of all observed clusters, by the cluster's name."""
        return [self.blocked_of(name) for name in sorted(self._snapshots)]

    def _wake(self, cluster: str) -> None:
        waiting = self._changed.pop(cluster, None)
        if waiting is not None:
            waiting.set()
        self._announce(notice_of(cluster))
