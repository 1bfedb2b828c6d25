"""The pages of topics for invented brokers: escapes, views of contents, errors beside their fields, links."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Brokers, LiveTopic, PartitionOffsets, TransactionalIds
from app.core.clusters.cluster import TopicFacts
from app.core.clusters.partition import Partition
from app.core.clusters.topic import ActiveProducer, DescribedPartition, ListedTopic, TopicDescription
from app.core.journals.log_look import LogLook, LogStart, ReadBound
from app.core.journals.record_batch import MarkerType
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from app.kit.clock import SystemClock
from app.kit.errors import UnavailableError
from app.products.topics.service.topics import TopicNames
from tests.core.journals.batches import batch_of
from tests.core.journals.logs import WrittenLog
from tests.support.fencing import register
from tests.support.topics import unique_name
from tests.support.wiring import client_of, settings_for_test, token_of, wired

HOSTILE = "<img src=x onerror=alert(1)>"


class Topics:
    """Brokers with one topic of one partition, whose log is `written`, and many topics of a list."""

    def __init__(self) -> None:
        self.written = WrittenLog()
        self.described: list[int] = []
        self.failure: Exception | None = None
        self.size_bytes: int | None = 7

    async def list_topics(self, connection: object) -> tuple[ListedTopic, ...]:
        if self.failure is not None:
            raise self.failure
        names = ["flights", *(f"t-{number:03}" for number in range(120))]
        return (*(ListedTopic(name, 1, 3, False) for name in names), ListedTopic("__internal", 50, 3, True))

    async def describe_topics(
        self, connection: object, topics: Collection[str], **_: object
    ) -> dict[str, TopicDescription]:
        self.described.append(len(topics))
        return {
            name: TopicDescription(
                name=name,
                is_internal=False,
                facts=TopicFacts(partitions=1, replication_factor=3, min_insync_replicas=1, compacts=False),
                partitions=(
                    DescribedPartition(
                        number=0, leader=1, replicas=(1, 2, 3), in_sync=(1, 2), size_bytes=self.size_bytes
                    ),
                ),
                settings={"cleanup.policy": "delete", "min.insync.replicas": "1"},
                size_note="" if self.size_bytes is not None else "DescribeLogDirs was refused",
            )
            for name in topics
            if name != "gone"
        }

    async def live_topic(self, connection: object, topic: str, **_: object) -> LiveTopic | None:
        described = (await self.describe_topics(connection, [topic])).get(topic)
        known = ActiveProducer(producer_id=7, producer_epoch=3, partitions=1, last_ms=1_000, open_since=3)
        return described and LiveTopic(
            described,
            {Partition(topic, 0): PartitionOffsets(earliest=0, last_stable=3, high_watermark=5)},
            (known,) * 60,
            (Refused("DescribeProducers of flights-0", "TOPIC_AUTHORIZATION_FAILED"),),
        )

    async def read_partition_logs(
        self, connection: object, topic: str, starts: LogStart | dict[int, LogStart], bound: ReadBound, **_: object
    ) -> dict[Partition, LogLook | Refused]:
        if self.failure is not None:
            raise self.failure
        return {Partition(topic, 0): self.written.look()}

    async def read_transactional_ids(self, connection: object, producer_ids: Collection[int]) -> TransactionalIds:
        return TransactionalIds(dict.fromkeys(producer_ids, "payments"), "as far as ListTransactions reports")


@pytest.fixture
def brokers() -> Topics:
    return Topics()


@pytest.fixture
async def wiring(database: Database, tmp_path: Path, brokers: Topics) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        await register(made.unit_of_work, "demo", "kafka-demo")
        asked = cast(Brokers, brokers)
        yield replace(made, brokers=asked, parts={**made.parts, TopicNames: TopicNames(asked, SystemClock())})


async def page_of(wiring: Wiring, path: str, role: Role = Role.OPERATOR, /, **query: str) -> httpx.Response:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, role, name=unique_name("t"))) as client:
        return await client.get(f"/clusters/demo/topics{path}", params=query, headers={"accept": "text/html"})


def written(brokers: Topics, key: bytes | None, value: bytes | None) -> None:
    brokers.written.batches.append(batch_of([(key, value)], base_offset=brokers.written.end))


async def test_only_the_topics_of_a_page_are_described(wiring: Wiring, brokers: Topics) -> None:
    first = await page_of(wiring, "", Role.VIEWER)
    assert first.status_code == 200
    assert brokers.described == [50]
    assert "121 topics" in first.text
    assert "1 internal hidden" in first.text
    assert first.text.count('id="topic-') == 50
    assert 'rel="next"' in first.text
    found = await page_of(wiring, "", search="FLIGHTS")
    assert brokers.described == [50, 1]
    assert "1 to review" in found.text
    assert "No matching topic" in (await page_of(wiring, "", search=HOSTILE)).text
    assert HOSTILE not in (await page_of(wiring, "", search=HOSTILE)).text


async def test_an_unknown_size_is_called_unknown_with_its_reason(wiring: Wiring, brokers: Topics) -> None:
    brokers.size_bytes = None
    assert 'title="DescribeLogDirs was refused">unknown' in (await page_of(wiring, "", search="flights")).text
    assert "DescribeLogDirs was refused" in (await page_of(wiring, "/flights")).text


async def test_a_topics_page_has_what_endangers_it_and_what_is_blocked(wiring: Wiring) -> None:
    html = (await page_of(wiring, "/flights")).text
    assert "may be on a single broker and lost with it" in html
    assert "2 of 3" in html
    assert "behind open transactions in 1 partition" in html
    assert "the last 50 of 60" in html
    assert "payments" in html
    assert "from offset 3" in html
    assert "DescribeProducers of flights-0 was refused" in html
    gone = await page_of(wiring, "/gone")
    assert gone.status_code == 404
    assert "has no topic gone" in gone.text


async def test_brokers_that_do_not_answer_leave_the_form_and_the_reason(wiring: Wiring, brokers: Topics) -> None:
    brokers.failure = UnavailableError("no Kafka broker answers at `demo`")
    for path in ("", "/flights/records"):
        answer = await page_of(wiring, path)
        assert answer.status_code == 503
        assert "no Kafka broker answers" in answer.text
        assert "<form" in answer.text


@pytest.mark.parametrize("role", list(Role))
async def test_records_are_shown_to_operators_only(wiring: Wiring, role: Role) -> None:
    is_operator = role.includes(Role.OPERATOR)
    assert (await page_of(wiring, "/flights/records", role)).status_code == (200 if is_operator else 403)
    assert ("/topics/flights/records" in (await page_of(wiring, "/flights", role)).text) is is_operator


async def test_contents_are_escaped_text_for_any_bytes(wiring: Wiring, brokers: Topics) -> None:
    written(brokers, HOSTILE.encode(), b'{"html": "<script>alert(1)</script>", "big": 12345678901234567890.10}')
    written(brokers, b"\xff\x00", b"\x1b[2J")
    written(brokers, None, b"")
    written(brokers, b"long", b"x" * 9_999)
    html = (await page_of(wiring, "/flights/records", **{"from": "start"})).text
    assert "<img" not in html
    assert "<script>alert" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    # JSON keeps its numbers as they are written.
    assert "12345678901234567890.10" in html
    assert "ff 00" in html
    assert "1b 5b 32 4a" in html
    assert "null</span>" in html
    assert "empty</span>" in html
    assert "cut: 10 kB in all" in html
    text = (await page_of(wiring, "/flights/records", view="hex", **{"from": "start"})).text
    assert HOSTILE.encode().hex(" ") in text


async def test_every_outcome_is_marked_at_its_record(wiring: Wiring, brokers: Topics) -> None:
    log = brokers.written
    log.plain()
    log.data(7)
    log.mark(7, MarkerType.ABORT)
    log.data(8)
    log.mark(8, MarkerType.COMMIT)
    log.data(9)
    html = (await page_of(wiring, "/flights/records", **{"from": "start"})).text
    for state in ("plain", "aborted", "committed", "open"):
        assert f">{state}</span>" in html
    assert "payments" in html
    assert "as far as ListTransactions reports" in html
    found = await page_of(wiring, "/flights/records", state="aborted", **{"from": "start"})
    assert "4 records read, 1 match" in found.text
    none = await page_of(wiring, "/flights/records", value="nothing-like-it", **{"from": "start"})
    assert "No match" in none.text
    assert "4 records read, 0 match" in none.text


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ({"from": "yesterday"}, "from", "nor a time such as"),
        ({"partition": "0", "from": "99"}, "from", "offset 99 is out of range"),
        ({"partition": "x"}, "partition", "no partition&#39;s number"),
        ({"value": "x" * 600}, "value", "at most 500"),
    ],
)
async def test_a_mistake_is_named_at_its_field_which_keeps_its_text(
    wiring: Wiring, brokers: Topics, query: dict[str, str], field: str, says: str
) -> None:
    brokers.written.plain()
    answer = await page_of(wiring, "/flights/records", **query)
    assert answer.status_code == 422
    assert f'id="problem-{field}-1"' in answer.text
    assert says in answer.text
    assert f'value="{query[field]}"' in answer.text


async def test_a_view_is_logged_and_a_page_of_records_is_never_refreshed(wiring: Wiring, brokers: Topics) -> None:
    brokers.written.plain()
    html = (await page_of(wiring, "/flights/records", **{"from": "start"})).text
    assert "hx-sse:connect" not in html
    token = await token_of(wiring, Role.ADMINISTRATOR)
    async with client_of(create_users_app(wiring), token=token) as client:
        rows = (await client.get("/api/v1/commands", params={"target": "cluster:demo"})).json()["items"]
    assert [row["outcome"] for row in rows if row["verb"] == "read_records"] == [
        "saw 1 record of flights-0 offsets 0 to 0"
    ]


async def test_links_lead_to_the_neighbours_and_the_whole_query_is_downloaded(wiring: Wiring, brokers: Topics) -> None:
    for _ in range(30):
        brokers.written.plain()
    query: dict[str, Any] = {"partition": "0", "from": "start", "limit": "20", "key": "k"}
    html = (await page_of(wiring, "/flights/records", **query)).text
    assert ">Continue</a>" in html
    assert "/api/v1/clusters/demo/topics/flights/records/download?partition=0&amp;from=start&amp;key=k" in html
    assert ">Newer records</a>" in (await page_of(wiring, "/flights/records")).text
