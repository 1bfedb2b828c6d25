"""The output of `fenceline stuck` for a whole cluster, with invented answers."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.console import Console, Group, RenderableType

from app.core.hanging.report import SearchReport
from app.core.hanging.schemas import HangingSearch
from app.core.hanging.search import UnclearPartition
from app.kit.cli.client import as_record
from app.products.direct.hanging import HangingAnswer, SearchRow, Waiting, answer_of, beside_ids, rendered
from tests.support.hanging_samples import hanging_transaction

CALM = SearchReport(cluster="c", swept_ms=1_000, partitions=50, held_back=3, asked=2)
REPORT = msgspec.structs.replace(CALM, hanging=(hanging_transaction(seen_ms=1_000),))
WAITING = Waiting(
    group="billing",
    topic="orders",
    partition=0,
    offset=41,
    since=datetime.now(UTC),
    producer_id=7,
    producer_epoch=0,
    transactional_id=None,
    state=None,
    times_out_at=None,
    is_hanging=True,
    journal_partition=12,
)


def printed(answer: HangingAnswer) -> str:
    return written(rendered(answer))


def written(what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=300)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_hanging_transactions_are_printed_with_their_commands() -> None:
    text = printed(answer_of(REPORT, "b1:9092"))
    assert "hangs in orders-0 from offset 10 on: producer 4015 belongs to no transactional id" in text
    assert "coordinator epoch 3" in text
    assert "  fenceline end orders 0 --start-offset 10 --bootstrap-server b1:9092\n" in text
    assert "--topic orders --partition 0 --start-offset 10" in text
    assert "50 partitions checked" in text


def test_no_hanging_transactions_only_if_all_brokers_answered() -> None:
    assert "No hanging transactions" in printed(answer_of(CALM, "b"))
    refused = UnclearPartition(topic="secret", partition=0, since_ms=1, reason="it needs READ on the topic secret")
    for less in (
        {"silent": ("broker 2 does not answer",)},
        {"problem": "the brokers are away"},
        {"unclear": (refused,), "unclear_count": 1},
        {"swept_ms": -1},
    ):
        text = printed(answer_of(msgspec.structs.replace(CALM, **less), "b"))
        assert "No hanging transactions" not in text
        assert "not known" in text
    assert "secret-0: it needs READ on the topic secret" in printed(
        answer_of(msgspec.structs.replace(CALM, unclear=(refused,), unclear_count=3), "b")
    )


def test_search_of_a_server_that_got_stuck_is_not_called_well() -> None:
    at = datetime.fromtimestamp(CALM.swept_ms / 1000, UTC)

    def told(after: timedelta) -> str:
        answer = HangingSearch.of_report(CALM, now=at + after).model_dump(mode="json")
        return printed(msgspec.structs.replace(answer_of(CALM, "b"), search=as_record(answer, SearchRow)))

    assert "No hanging transactions" in told(timedelta(seconds=10))
    overdue = told(timedelta(minutes=10))
    assert "Hanging transactions are not known" in overdue
    assert "the last sweep of all partitions ended 10 min ago" in overdue


def test_hanging_pending_offsets_are_printed_with_their_partition() -> None:
    text = printed(msgspec.structs.replace(answer_of(CALM, "b"), pending_offsets=(WAITING,)))
    assert "billing" in text
    assert "never: end it in __consumer_offsets-12" in text


def test_hanging_transactions_are_above_the_ids_with_their_command() -> None:
    text = written(Group(*beside_ids(answer_of(REPORT, "b1:9092"))))
    assert "1 hanging transaction" in text
    assert re.search(r"orders-0 +10 +4015 +2 ", text)
    assert "fenceline end orders 0 --start-offset 10 --bootstrap-server b1:9092\n" in text
    assert "not known" not in text
    assert "No hanging transactions" in written(Group(*beside_ids(answer_of(CALM, "b"))))


@pytest.mark.parametrize("found", [CALM, REPORT], ids=["nothing", "one"])
def test_incomplete_searches_are_not_called_clean(found: SearchReport) -> None:
    silent = msgspec.structs.replace(found, silent=("broker 2 does not answer",))
    text = written(Group(*beside_ids(answer_of(silent, "b"))))
    assert "No hanging transactions" not in text
    assert f"Not known whether {'more' if found.hanging else 'anything'} hangs" in text
