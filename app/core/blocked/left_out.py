"""Detect a hanging transaction that may be committed: coordinators skip markers of a partition without a leader (Kafka
4.3).

The coordinator records the transaction as complete all the same (docs/client-facts.md, "Skipped markers";
tests/kafka/transactions/test_markers_left_out.py). Such records become visible with the next commit under the id that
writes to the partition. Any abort marker discards them.
"""

from __future__ import annotations

from app.core.blocked.facts import COMPLETE_COMMIT, KnownTransaction, OpenTransaction

ADVICE = (
    "Brokers skip the markers of a partition without a leader: then an abort marker would discard records that were "
    "confirmed to its producer as committed. The next commit under that id that writes here makes them visible. If the "
    "hanging records were sent too late instead, ending the transaction loses nothing"
)


def may_be_committed(hanging: OpenTransaction, known: KnownTransaction | None) -> bool:
    """Return True if the coordinator's last decision may be about this transaction, and was a commit.

    The epoch is the transaction's own; with KIP-890 (transaction.version 2), which raises it with each end, it may be
    one more. Without KIP-890, records that were sent too late hang under the same epoch, too: the two cases look the
    same.
    """
    return (
        known is not None
        and known.state == COMPLETE_COMMIT
        and known.producer_id == hanging.producer_id
        and known.producer_epoch - hanging.producer_epoch in (0, 1)
    )
