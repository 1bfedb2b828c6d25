"""A failed tail leaves nothing behind, since its caller retries for hours; a steady flow is read ten times a second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.edges.kafka import raw_client
from app.edges.kafka.journal_tail import KafkaJournals, pace_after
from app.edges.kafka.raw_client import errors
from app.kit.errors import FencelineError


class Client:
    """The library's client, connected to a broker that says nothing more."""

    def __init__(self, **_: Any) -> None:
        made.append(self)
        self.is_closed = False
        cluster = SimpleNamespace(config={}, brokers=list)
        self._manager = SimpleNamespace(cluster=cluster, run=self._run)

    def _run(self, *_: Any) -> None:
        raise errors.KafkaTimeoutError("no metadata in time")

    def close(self) -> None:
        self.is_closed = True


made: list[Client] = []


def test_a_connection_without_answers_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(raw_client, "KafkaAdminClient", Client)
    journals = KafkaJournals(environment={}, secrets_dir=None, topics=["__transaction_state"])
    with pytest.raises(FencelineError, match="no metadata in time"):
        journals.open({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.1)
    assert [one.is_closed for one in made] == [True]


def test_the_first_record_after_a_pause_is_read_at_once_and_a_steady_flow_ten_times_a_second() -> None:
    flow: list[float] = [0.0]
    for _ in range(7):
        flow.append(pace_after(flow[-1], took_s=0.002, has_records=True))
    assert flow == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1])
    assert pace_after(0.1, took_s=0.25, has_records=True) == 0.02, "it came after a pause"
    assert pace_after(0.1, took_s=0.3, has_records=False) == 0.0
