"""`fenceline fencing`: a real takeover, from the server and from the journals; and the format of events."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from app.core.fencing.evidence import CoordinatorRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.fencing.record import FencingPlace, FencingRecord
from app.core.fencing.schemas import FencingEvent, FencingEventDetail
from app.core.fencing.service.feed import FencingLine
from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.client import Client, as_record
from app.products.direct import fencing
from app.products.direct.fencing import ToldEvent
from tests.conftest import MakeTopic
from tests.core.fencing.coordinator import ID, Coordinator
from tests.core.fencing.scenes import epoch_event, felt, word
from tests.support.fixtures import Fenceline, json_of
from tests.support.topics import unique_name
from tests.support.transactions import take_over
from tests.support.waiting import wait_for


@pytest.mark.slow
def test_server_and_journal_tell_the_same_takeover(
    fenceline: Fenceline, cluster: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic, name = make_topic(), unique_name("taken")
    clients = take_over({"bootstrap.servers": kafka.bootstrap_servers}, topic, name)
    direct = json_of(fenceline("fencing", name, "--json", "--bootstrap-server", kafka.bootstrap_servers))
    (seen,) = direct["items"]
    assert (seen["cause"], seen["producer_epoch"], direct["source"]) == ("takeover", 0, "__transaction_state")

    def by_server() -> list[dict[str, object]]:
        return json_of(fenceline("fencing", name, "--cluster", cluster, "--json"))["items"]

    (told,) = wait_for(by_server, 60, "the event of the server's observer")
    by_place = ("id", "cluster")
    assert told["cluster"] == cluster
    assert {key: value for key, value in told.items() if key not in by_place} == {
        key: value for key, value in seen.items() if key not in by_place
    }
    shown = fenceline("fencing", name, "--cluster", cluster).stdout
    assert f"A new producer took {name}" in " ".join(shown.split())
    assert "__transaction_state-" in shown
    assert "1 event, from the server" in shown
    del clients


def test_options_of_the_other_source_are_refused(fenceline: Fenceline) -> None:
    for option in ("--pipeline", "--group"):
        refused = fenceline("fencing", "--bootstrap-server", "127.0.0.1:1", option, "p")
        assert refused.returncode == 2
        assert f"{option} " in refused.stderr
        assert "need the server" in refused.stderr


def test_server_is_asked_for_what_was_chosen(tmp_path: Path) -> None:
    asked: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, json={"items": [], "next_cursor": None})

    client = Client(
        url="http://server", token="t", token_file=tmp_path / "token", transport=httpx.MockTransport(answer)
    )
    source = fencing.OfServer(client, cluster="c", pipeline=None, group="g/1")
    wanted = fencing.EventSelection(transactional_id=None, cause=None, hours=None, with_what_is_none=False, limit=5)
    assert source.events(wanted) == []
    (url,) = asked
    assert url.path == "/api/v1/fencing"
    assert dict(url.params) == {"limit": "5", "cluster": "c", "group": "g/1"}


def line() -> FencingLine:
    coordinator = Coordinator(now_ms=int(time.time() * 1000))
    coordinator.begin()
    coordinator.init(after_ms=300)
    event = epoch_event(coordinator.live, 0, felt(coordinator.live, word(), epoch=0))
    assert any(isinstance(one, CoordinatorRecord) for one in event.evidence)
    now = datetime.now(UTC)
    place = FencingPlace(pipeline="delayed-flights", ordinal=0, task=1)
    record = FencingRecord(id="i", event=event, place=place, corrections=(), told_at=now, changed_at=now)
    return FencingLine(cluster="demo", record=record)


def test_the_command_reads_the_answer_of_rest() -> None:
    listed = as_record(FencingEvent.of_line(line()).model_dump(mode="json"), ToldEvent)
    whole = as_record(FencingEventDetail.of_line(line()).model_dump(mode="json"), ToldEvent)
    assert (listed.transactional_id, listed.cause, listed.confidence) == (ID, FencingCause.TAKEOVER, Confidence.LIKELY)
    assert listed.place.pipeline == "delayed-flights"
    assert listed.moments == ()
    assert [moment.is_own_word for moment in whole.moments].count(True) == 1
    assert len(whole.runbook) == 3


def test_empty_list_reports_no_fencing_events() -> None:
    assert "No fencing events" in str(fencing._table([]))  # pyright: ignore[reportPrivateUsage] - what is printed
