"""Both journals of one cluster, and the snapshots that are published of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from app.core.clocks.broker_clocks import MeasuredClocks
from app.core.journals import group_records, transaction_state
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.journals.transaction_state import IS_OPEN
from app.core.observing.live_journal import LiveJournal
from app.core.observing.snapshot import ReadingPhase, Snapshot

JOURNALS = (transaction_state.TOPIC, group_records.TOPIC)


class Folds(msgspec.Struct):
    """The saved state, from which a restart continues."""

    transactions: LiveTransactions = msgspec.field(default_factory=LiveTransactions)
    groups: LiveGroups = msgspec.field(default_factory=LiveGroups)


class LiveCluster:
    """Used by one thread; all threads may use its snapshots.

    is_wanted: chooses the groups to keep; records of others are counted.
    """

    def __init__(self, cluster: str, folds: Folds, *, is_wanted: Callable[[str], bool], now_ms: int) -> None:
        self.folds = folds
        self.transactions: LiveJournal[LiveTransaction] = LiveJournal(
            transaction_state.TOPIC,
            reading=folds.transactions.reading,
            values=folds.transactions.ids,
            apply=self._apply_transactions,
            forget=folds.transactions.forget,
            keep=lambda live: live,
            is_open=lambda live: IS_OPEN[live.state.status],
            now_ms=now_ms,
        )
        self.groups: LiveJournal[LiveGroup] = LiveJournal(
            group_records.TOPIC,
            reading=folds.groups.reading,
            values=folds.groups.groups,
            apply=lambda partition, batch: folds.groups.apply(partition, batch, is_wanted=is_wanted),
            forget=folds.groups.forget,
            keep=LiveGroup.copy,
            now_ms=now_ms,
        )
        self.clocks = MeasuredClocks()
        self._cluster = cluster
        # Also for saved ids: their steps may not have been processed before the restart.
        self._stepped = {name for name, live in folds.transactions.ids.items() if live.past}
        self._commits = self._aborts = 0
        self._is_status_new = True
        self._number = 0
        self._newest: Snapshot | None = None

    def journal(self, topic: str) -> LiveJournal[LiveTransaction] | LiveJournal[LiveGroup]:
        return self.transactions if topic == transaction_state.TOPIC else self.groups

    def take_stepped(self) -> list[LiveTransaction]:
        """Return the ids with a step since the last call, each in its current state, with its steps and their records.

        The first call returns every id with a step, so callers must tolerate repetitions.
        """
        ids = self.folds.transactions.ids
        stepped, self._stepped = self._stepped, set[str]()
        return [ids[name] for name in stepped if name in ids]

    def _note_step(self, transactional_id: str) -> None:
        self._stepped.add(transactional_id)

    def _apply_transactions(self, partition: int, batch: RecordBatch | UnreadableBatch) -> list[str]:
        fold = self.folds.transactions
        commits, aborts = fold.commits, fold.aborts
        changed = fold.apply(partition, batch, on_step=self._note_step)
        if self.transactions.progress.is_caught_up(partition):
            self._commits += fold.commits - commits
            self._aborts += fold.aborts - aborts
        return changed

    def enter(self, topic: str, phase: ReadingPhase, *, problem: str = "", now_ms: int) -> None:
        """Note the phase of one journal."""
        self._is_status_new |= self.journal(topic).enter(phase, problem=problem, now_ms=now_ms)

    def snapshot(self, *, now_ms: int) -> Snapshot:
        """Return the current state; with the previous number if only times and counts have changed."""
        number = self._number + 1
        is_changed = self.transactions.publish()
        is_changed |= self.groups.publish()
        is_changed |= self._is_status_new
        self._is_status_new = False
        newest = self._newest
        if newest is None or is_changed:
            self._number = number
            transactions, groups = self.transactions.shown(), self.groups.shown()
            newest = Snapshot(
                cluster=self._cluster,
                number=number,
                at_ms=now_ms,
                transaction_journal=self.transactions.status(now_ms),
                group_journal=self.groups.status(now_ms),
                transactions=transactions.values,
                open_transactions=transactions.still_open,
                transactional_ids=transactions.names,
                groups=groups.values,
                pace=self.folds.transactions.pace.copy(),
                commits=self._commits,
                aborts=self._aborts,
                expired_ids=self.folds.transactions.expired,
                records_of_unwanted_groups=self.folds.groups.records_of_others,
                clocks=self.clocks.frozen(now_ms=now_ms),
            )
        else:
            newest = msgspec.structs.replace(
                newest,
                at_ms=now_ms,
                commits=self._commits,
                aborts=self._aborts,
                transaction_journal=self.transactions.status(now_ms),
                group_journal=self.groups.status(now_ms),
                clocks=self.clocks.frozen(now_ms=now_ms),
            )
        self._newest = newest
        return newest
