"""Moves the leader of a transaction between the coordinator's decision and its completion.

PREPARE_COMMIT ─▶ (the markers are held) ─▶ another leader reads PREPARE_COMMIT ─▶ its own markers ─▶ COMPLETE_COMMIT
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.core.journals.record_batch import RecordBatch, read_records
from app.core.journals.transaction_state import TOPIC, TransactionState, TransactionStatus, decode_key, decode_value
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.fault_suite.leaders import At, move_leaders
from tests.fault_suite.marker_gate import MarkerGate
from tests.fault_suite.plan import NotDoneError
from tests.support import verifier
from tests.support.waiting import wait_for

_WITHIN_S = 90.0
_COMMITS_WITHIN_S = 2.0
"""A task commits several times in this time. One that comes back waits for its predecessor's markers, and is not kept
longer from them."""
_LET_THROUGH_S = 0.5


class Said(NamedTuple):
    """The last record of a coordinator about an id."""

    at: At
    offset: int
    leader_epoch: int
    state: TransactionState

    def __str__(self) -> str:
        return f"{self.state.status.word} at offset {self.offset} of {self.at.topic}-{self.at.partition}"


class Journal:
    """The records of `__transaction_state` from now on."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._since = verifier.end_offsets(bootstrap_servers, TOPIC, verifier.READ_UNCOMMITTED)

    def said(self) -> Mapping[str, Said]:
        """By id, of those of which anything was."""
        found: dict[str, Said] = {}
        attempt = ConnectionAttempt(self._bootstrap_servers, _WITHIN_S)
        resolved = {"bootstrap.servers": self._bootstrap_servers}
        for partition, batch in read_logs(resolved, attempt, TOPIC, since=self._since):
            records = read_records(batch) if isinstance(batch, RecordBatch) else batch
            assert isinstance(batch, RecordBatch), batch
            assert isinstance(records, list), records
            for record in records:
                name, state = decode_key(record.key or b""), decode_value(record.value)
                if isinstance(name, str) and isinstance(state, TransactionState):
                    found[name] = Said(At(TOPIC, partition), record.offset, batch.leader_epoch, state)
        return found


def move_prepared(
    bootstrap_servers: str, gate: MarkerGate, did: Callable[[str], None], *, wait: Callable[[float], object]
) -> None:
    """Move the coordinator of the id that is prepared first.

    Raises NotDoneError where its markers were written before the leader had moved: a coordinator that finds the
    transaction complete has nothing to do.
    """
    journal = Journal(bootstrap_servers)
    try:
        name, before = _hold_prepared(journal, gate, wait)
        did(f"markers held; {name}: {before}")
        for moved in move_leaders(bootstrap_servers, [before.at], deadline_s=_WITHIN_S):
            did(moved)
        now = journal.said()[name]
        if now != before:
            raise NotDoneError(f"missed: when the leader had moved, {name} was {now} already")
        did(f"hit: still {now}")
    finally:
        gate.let_through()

    def later() -> Said | None:
        found = journal.said()[name]
        return found if found.offset > before.offset else None

    after = wait_for(later, _WITHIN_S, lambda: f"a record of the new leader on {name}; it is {journal.said()[name]}")
    assert after is not None
    did(f"then {after}, leader epoch {after.leader_epoch}, before {before.leader_epoch}")


def _hold_prepared(journal: Journal, gate: MarkerGate, wait: Callable[[float], object]) -> tuple[str, Said]:
    """Markers are held when this returns.

    An init that has to end another producer's transaction needs them, too. So they are let through again and again
    until a task commits.
    """

    def prepared() -> list[tuple[str, Said]]:
        said = journal.said()
        return sorted(one for one in said.items() if one[1].state.status is TransactionStatus.PREPARE_COMMIT)

    def held() -> tuple[str, Said] | None:
        gate.hold()
        try:
            return wait_for(prepared, _COMMITS_WITHIN_S, "a commit")[0]
        except AssertionError:
            gate.let_through()
            wait(_LET_THROUGH_S)
            return None

    found = wait_for(held, _WITHIN_S, lambda: f"a commit whose markers are held; records: {journal.said()}")
    assert found is not None
    return found
