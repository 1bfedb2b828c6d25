"""Whether what hangs was committed: a coordinator leaves out the markers of a partition without a leader (Kafka 4.3).

It notes the transaction as complete all the same (docs/client-facts.md, "Skipped markers"; tests/kafka/transactions/
test_markers_left_out.py). Such records are shown by the next commit under the id that writes to the partition, and gone
with an abort marker, whoever writes it.
"""

from __future__ import annotations

from app.core.blocked.facts import COMPLETE_COMMIT, KnownTransaction, OpenTransaction

ADVICE = (
    "Brokers leave out the markers of a partition that has no leader just then: an abort marker would lose what its "
    "producer was told is committed. The next commit under that id that writes here shows it. If what hangs was sent "
    "too late instead, ending it loses nothing"
)


def may_be_committed(hanging: OpenTransaction, known: KnownTransaction | None) -> bool:
    """Whether the last that its coordinator decided may have been this one, and was a commit.

    The epoch is the transaction's own, or with KIP-890 (transaction.version 2) one more, since that raises it with each
    end. Before it, what a producer sent too late hangs under the same epoch too: nobody can tell these two apart.
    """
    return (
        known is not None
        and known.state == COMPLETE_COMMIT
        and known.producer_id == hanging.producer_id
        and known.producer_epoch - hanging.producer_epoch in (0, 1)
    )
