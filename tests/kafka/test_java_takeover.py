"""A takeover between real clients of KIP-890, whose every commit moves the epoch too."""

from __future__ import annotations

import pytest

from app.domain.fencing_events.cases import told
from app.domain.fencing_events.evidence import CoordinatorRecord
from app.domain.fencing_events.fencing_event import Cause, Confidence, FencingEvent
from app.domain.fencing_events.steps import cases_of
from app.domain.journals.live_transactions import ClientProtocol, LiveTransaction, LiveTransactions
from app.domain.journals.transaction_state import TOPIC
from app.embedded.kafka import KafkaCluster
from app.kafka.attempt import Attempt
from app.kafka.raw_fetch import read_logs
from tests.conftest import MakeTopic
from tests.support.kafka_tools import run_program
from tests.support.topics import unique_name

_TIMEOUT_S = 120.0


def ids_of(servers: str) -> dict[str, LiveTransaction]:
    live = LiveTransactions()
    for partition, batch in read_logs({"bootstrap.servers": servers}, Attempt(servers, _TIMEOUT_S), TOPIC):
        live.apply(partition, batch)
    return live.ids


def events_of(live: LiveTransaction) -> list[FencingEvent]:
    cases = cases_of(live, kafka_cluster_id="cluster")
    return [event for case in cases if (event := told(case)) is not None]


@pytest.mark.slow
def test_java_producer_of_the_same_id_takes_over_and_one_of_another_does_not(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic, same, first, second = make_topic(), unique_name("same"), unique_name("first"), unique_name("second")
    for ids in ((same, same), (first, second)):
        run_program("TwoProducers", kafka.bootstrap_servers, topic, *ids, timeout_s=_TIMEOUT_S)
    journal = ids_of(kafka.bootstrap_servers)
    assert journal[same].client_protocol is ClientProtocol.TV_2
    (event,) = events_of(journal[same])
    assert (event.verdict.cause, event.verdict.confidence) == (Cause.TAKEOVER, Confidence.LIKELY)
    # That the first one aborted by itself, and the second came at once, would look the same.
    assert event.verdict.alternatives == (Cause.OWN_ABORT,)
    epochs = [one.record.producer_epoch for one in event.evidence if isinstance(one, CoordinatorRecord)]
    assert epochs == [0, 1, 1, 2, 2]
    assert [events_of(journal[name]) for name in (first, second)] == [[], []]
