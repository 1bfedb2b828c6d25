"""Settings are never an observed guarantee; guarantees that one broker's loss can break are at risk."""

from __future__ import annotations

import pytest

from app.products.conformance.durability import judge_settings
from app.products.conformance.report import ConformanceVerdict

TOPIC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
BROKERS = {"transaction.state.log.replication.factor": ("3",), "transaction.state.log.min.isr": ("2",)}


def test_good_settings_show_nothing_and_say_what_they_promise() -> None:
    found = judge_settings(replication_factor=3, topic=TOPIC, brokers=BROKERS)
    assert found.verdict is ConformanceVerdict.NOT_SHOWN
    assert found.said.endswith("committed records survive the loss of 1 replica")


@pytest.mark.parametrize(
    ("replication_factor", "topic", "brokers", "says"),
    [
        (1, {}, {}, "partitions have one replica"),
        (3, {"min.insync.replicas": "1"}, {}, "`min.insync.replicas` is 1"),
        (3, {"unclean.leader.election.enable": "true"}, {}, "an out-of-sync replica may become leader"),
        (3, {}, {"transaction.state.log.replication.factor": ("1",)}, "`__transaction_state` has one replica"),
        (3, {}, {"transaction.state.log.min.isr": ("2", "1")}, "`transaction.state.log.min.isr` is 1"),
    ],
)
def test_each_weakness_is_a_risk(
    replication_factor: int, topic: dict[str, str], brokers: dict[str, tuple[str, ...]], says: str
) -> None:
    found = judge_settings(replication_factor=replication_factor, topic=TOPIC | topic, brokers=BROKERS | brokers)
    assert found.verdict is ConformanceVerdict.AT_RISK
    assert says in found.said
    assert ";" not in found.said, "one weakness, one sentence"


def test_unreported_settings_do_not_count_as_good() -> None:
    found = judge_settings(replication_factor=3, topic={"min.insync.replicas": "2"}, brokers={})
    assert found.verdict is ConformanceVerdict.NOT_SHOWN
    assert found.said.endswith("the cluster does not report `unclean.leader.election.enable`")
    assert "outlives" not in found.said
