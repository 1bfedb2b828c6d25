"""Search the followed journal for producers that no coordinator reports: brokers hide ids without an error."""

from __future__ import annotations

from app.core.blocked.facts import PartitionFacts, strangers_in, with_journal
from app.core.hanging.accounting import is_followed
from app.core.observing.snapshot import Snapshot


def is_news(snapshot: Snapshot, facts: PartitionFacts) -> bool:
    """Return True if the journal is followed, and read up to the time of the leader's answer."""
    return is_followed(snapshot) and snapshot.transaction_journal.as_of_ms >= facts.open_at_ms


def corroborated(facts: PartitionFacts, snapshot: Snapshot) -> PartitionFacts:
    """Add the journal's entries of producers that no coordinator reports; unchanged if the journal cannot decide."""
    strangers = strangers_in(facts)
    if not strangers or not is_news(snapshot, facts):
        return facts
    ids = snapshot.transactions.items()
    hidden = {live.state.producer_id: name for name, live in ids if live.state.producer_id in strangers}
    return with_journal(facts, hidden, is_whole=True)
