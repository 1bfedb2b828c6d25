"""The effective settings of brokers that differ, without brokers."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.clusters.brokers import ClusterDescription
from app.core.clusters.cluster import ClusterFacts
from app.edges.kafka import admin
from app.edges.kafka.group_client import BrokerFacts

PROTOCOLS = "group.coordinator.rebalance.protocols"


def facts(*brokers: dict[str, str], offers: bool | None = True) -> ClusterFacts:
    described: Any = ClusterDescription(cluster_id="kafka-1", controller_id=1, brokers=())
    abilities = BrokerFacts(oldest=(4, 3), offers_consumer_protocol=offers)
    return admin._facts(described, {}, {}, list(brokers), abilities, {}, ())  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("allowed", ["classic,consumer", "consumer", "classic, consumer ,streams"])
def test_a_broker_that_names_the_protocol_allows_it(allowed: str) -> None:
    assert facts({PROTOCOLS: allowed}).offers_consumer_protocol is True


@pytest.mark.parametrize("allowed", ["classic", "", "classic,streams", "classic,consumers", "not-consumer"])
def test_a_broker_that_does_not_name_it_refuses_it(allowed: str) -> None:
    assert facts({PROTOCOLS: allowed}).offers_consumer_protocol is False


def test_one_broker_that_refuses_it_is_enough_for_any_may_coordinate() -> None:
    assert facts({PROTOCOLS: "classic,consumer"}, {PROTOCOLS: "classic"}).offers_consumer_protocol is False
    assert facts({PROTOCOLS: "classic"}, {PROTOCOLS: "classic,consumer"}).offers_consumer_protocol is False


def test_brokers_without_the_setting_offer_what_their_features_say() -> None:
    assert facts({}, {PROTOCOLS: "classic,consumer"}).offers_consumer_protocol is True
    assert not facts({PROTOCOLS: "classic,consumer"}, offers=False).offers_consumer_protocol
    assert facts({}, offers=None).offers_consumer_protocol is None


def test_the_strictest_limit_and_the_longest_sweep_count() -> None:
    found = facts(
        {
            "transaction.max.timeout.ms": "900000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
        },
        {"transaction.max.timeout.ms": "60000", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "60000"},
        {},
    )
    assert (found.transaction_max_timeout_ms, found.abort_sweep_ms) == (60_000, 60_000)
