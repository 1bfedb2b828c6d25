"""What coordinators do not show is looked up in their journal, as it is followed: brokers hide ids without a word."""

from __future__ import annotations

from app.core.blocked.facts import PartitionFacts, strangers_in, with_journal
from app.core.hanging.accounting import is_followed
from app.core.observing.snapshot import Snapshot


def is_news(snapshot: Snapshot, facts: PartitionFacts) -> bool:
    """Whether the journal is followed, and has been read to what was open when the leader was asked."""
    return is_followed(snapshot) and snapshot.transaction_journal.as_of_ms >= facts.open_at_ms


def corroborated(facts: PartitionFacts, snapshot: Snapshot) -> PartitionFacts:
    """The same, with what the journal says of producers that no coordinator shows; unchanged if it cannot say it."""
    strangers = strangers_in(facts)
    if not strangers or not is_news(snapshot, facts):
        return facts
    ids = snapshot.transactions.items()
    hidden = {live.state.producer_id: name for name, live in ids if live.state.producer_id in strangers}
    return with_journal(facts, hidden, is_whole=True)
