"""`fenceline mappings`: against a server, and the form of its output."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from app.core.mappings.cli import mappings
from app.core.mappings.cli import tables as mapping_tables
from app.kit.cli.errors import CommandError
from tests.support.fixtures import Fenceline, json_of

OWNER = {"run_id": "r", "ordinal": 0, "lease": 2, "task": 1, "attempt": 3, "host": "worker-3"}
STRETCH: dict[str, Any] = {
    "pipeline": "flights",
    "kafka_cluster_id": "k",
    "group": "g",
    "topic": "in",
    "partition": 2,
    "transactional_id": "fl.t.flights.0.1",
    "owner": OWNER,
    "generation": 18,
    "since": "2026-01-31T14:00:00Z",
    "until": None,
    "producer_id": 4012,
    "epoch": 7,
}
LINE: dict[str, Any] = {
    "number": 1,
    "topic": "in",
    "partition": 0,
    "transactional_id": "app-0_0",
    "is_known": False,
    "problems": [],
    "warnings": [],
}


def written(shown: RenderableType) -> str:
    console = Console(file=StringIO(), width=250)
    with console.capture() as said:
        console.print(shown)
    return " ".join(said.get().split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flights", ("flights", None)),
        ("flights:2", ("flights", 2)),
        ("flights-2", ("flights", 2)),
        ("flights-eu.1:0", ("flights-eu.1", 0)),
        ("flights-2:0", ("flights-2", 0)),
    ],
)
def test_partition_is_named_as_kafkas_tools_do_or_with_a_colon(text: str, expected: tuple[str, int | None]) -> None:
    assert mappings._partition(text) == expected  # pyright: ignore[reportPrivateUsage] - what the commands ask with


def test_malformed_partition_is_refused() -> None:
    with pytest.raises(CommandError, match="expected TOPIC, TOPIC:PARTITION or TOPIC-PARTITION"):
        mappings._partition("a b")  # pyright: ignore[reportPrivateUsage] - as above


def test_owner_of_a_moment_is_written_with_producer_epoch_and_host() -> None:
    said = written(mapping_tables.stretches([STRETCH], empty="none"))  # pyright: ignore[reportPrivateUsage] - as above
    assert (
        "in-2 2026-01-31 14:00:00 UTC now flights 0.1 lease 2 attempt 3 on worker-3 fl.t.flights.0.1 4012:7 18" in said
    )
    assert written(mapping_tables.stretches([], empty="none")) == "none"  # pyright: ignore[reportPrivateUsage] - as above


@pytest.mark.parametrize(
    ("line", "is_done", "says"),
    [
        (LINE, False, "would import 1 of 1 for flights; add --execute to import"),
        (LINE, True, "imported 1 of 1 for flights"),
        ({**LINE, "is_known": True}, False, "imported before would import 0 of 1"),
        ({**LINE, "warnings": ["used lately"]}, False, "warning: used lately"),
        ({**LINE, "problems": ["no such topic"]}, False, "no such topic nothing is imported: 1 problem"),
    ],
)
def test_import_says_line_by_line_what_it_would_do(line: dict[str, Any], is_done: bool, says: str) -> None:
    plan = {"lines": [line], "warnings": [], "problems": line["problems"]}
    assert says in written(mapping_tables.import_plan(plan, "flights", is_done=is_done))  # pyright: ignore[reportPrivateUsage] - as above


def test_registry_is_written_with_what_to_look_at_first() -> None:
    one: dict[str, Any] = {
        "transactional_id": "fl.t.gone.0.0",
        "standing": "orphaned",
        "orphan": "no_pipeline",
        "owner": None,
        "partitions": [],
        "state": "Empty",
        "changed_at": datetime.now(UTC).isoformat(),
        "expires_at": None,
        "contested": "",
    }
    given_up = {"since": datetime.now(UTC).isoformat(), "migration": "m-1"}
    owner = {"pipeline": "flights", "kind": "partition", "archived": given_up}
    archived = {**one, "transactional_id": "fl.p.g.in.0", "standing": "archived", "orphan": None, "owner": owner}
    found = {
        "items": [one, archived],
        "matching": 3,
        "tally": {"ids": 4, "ours": 1, "foreign": 1, "archived": 1, "orphaned": 1, "unseen": 0, "contested": 2},
        "stale": [{"topic": "old", "partition": 0, "group": "g", "pipeline": "flights"}],
        "expiration_problem": "no broker says it",
    }
    said = written(mapping_tables.registry(found))  # pyright: ignore[reportPrivateUsage] - as above
    assert said.startswith(
        "4 ids on the brokers: 1 managed, 1 foreign, 1 archived, 1 orphaned; 0 owned, not on the brokers "
        "2 used by another client"
    )
    assert "fl.t.gone.0.0 orphaned Empty" in said
    assert "no pipeline owns it" in said
    assert "fl.p.g.in.0 archived: flights (partition) Empty" in said
    assert "by migration m-1" in said
    assert "expiry not known: no broker says it" in said
    assert "old-0 of g is mapped and flights does not read it" in said


@pytest.mark.slow
def test_commands_reach_the_server(fenceline: Fenceline, cluster: str) -> None:
    assert "kafka-streams-v2" in fenceline("mappings", "formulas").stdout
    assert json_of(fenceline("mappings", "list", "--cluster", cluster, "--json")) == []
    unowned = fenceline("mappings", "owner", "nowhere:0", "--at", "1h", "--cluster", cluster)
    assert (unowned.returncode, "No task of Fenceline owned nowhere:0 at" in unowned.stdout) == (1, True)
    assert fenceline("mappings", "owner", "nowhere:0", "--at", "14:03", "--cluster", cluster).returncode == 2
    registry = json_of(fenceline("mappings", "ids", "--cluster", cluster, "--only", "ours", "--json"))
    assert registry["items"] == []
    missing = fenceline("mappings", "import", "nothing", "--formula", "spring-kafka", "--set", "prefix=tx-")
    assert missing.returncode == 1
    assert "nothing" in missing.stderr
    assert fenceline("mappings", "import", "nothing", "--set", "prefix").returncode == 2
