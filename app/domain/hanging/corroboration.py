"""What coordinators do not show is looked up in their journal, as it is followed: brokers hide ids without a word."""

from __future__ import annotations

import msgspec

from app.domain.hanging.accounting import is_followed
from app.domain.observing.snapshot import Snapshot
from app.domain.stuck.facts import Coordinators, PartitionFacts, hidden_id, strangers_in


def is_news(snapshot: Snapshot, facts: PartitionFacts) -> bool:
    """Whether the journal is followed, and has been read to what was open when the leader was asked."""
    return is_followed(snapshot) and snapshot.transaction_journal.as_of_ms >= facts.open_at_ms


def corroborated(facts: PartitionFacts, snapshot: Snapshot) -> PartitionFacts:
    """The same, with what the journal says of producers that no coordinator shows; unchanged if it cannot say it."""
    strangers = strangers_in(facts)
    said = facts.coordinators
    if not strangers or said.unanswered or not is_news(snapshot, facts):
        return facts
    hidden = sorted(name for name, live in snapshot.transactions.items() if live.state.producer_id in strangers)
    refused = tuple(hidden_id(name) for name in hidden)
    told = Coordinators(said.known, refused, is_corroborated=not hidden, at_ms=said.at_ms)
    return msgspec.structs.replace(facts, coordinators=told)
