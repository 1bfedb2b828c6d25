"""The records of a broker's transaction journal, and the fencing events that they prove."""

from __future__ import annotations

from app.core.fencing.cause import judge_case
from app.core.fencing.fencing_event import FencingCause, FencingEvent
from app.core.fencing.steps import cases_of
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.transaction_state import TOPIC
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs

_TIMEOUT_S = 30.0


def ids_of(bootstrap_servers: str) -> dict[str, LiveTransaction]:
    """Every transactional id as of now, with its past."""
    live = LiveTransactions()
    attempt = ConnectionAttempt(bootstrap_servers, _TIMEOUT_S)
    for partition, batch in read_logs({"bootstrap.servers": bootstrap_servers}, attempt, TOPIC):
        live.apply(partition, batch)
    return live.ids


def events_of(live: LiveTransaction) -> list[FencingEvent]:
    """The events of an id, those without a fencing included."""
    cases = cases_of(live, kafka_cluster_id="cluster")
    return [event for case in cases if (event := judge_case(case)) is not None]


def causes_of(live: LiveTransaction) -> list[FencingCause]:
    return [event.verdict.cause for event in events_of(live)]
