"""`fenceline audit`: the formats of windows and ids, and the output for an audit."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.edges.cli import build
from app.kit.cli.errors import CommandError
from app.kit.web.api.shown import model_of
from app.products.audits.audit import Audit, AuditState
from app.products.audits.cli import audits, comparisons
from app.products.audits.plan import AuditPlan
from app.products.audits.result import AuditCounts
from app.products.audits.schemas import with_ids
from tests.support.audit_samples import COMPARED, audit, broken_result, compared_result, dangling_result, plan, result


def test_place_of_an_id_is_parsed() -> None:
    assert audits.place("key", "--id") == {"kind": "key"}
    assert audits.place("json:order.id", "--id") == {"kind": "json", "path": "order.id"}
    assert audits.place("header:trace:id", "--id") == {"kind": "header", "name": "trace:id"}
    with pytest.raises(CommandError, match="expected key, json:PATH or header:NAME"):
        audits.place("order.id", "--id")


def test_audit_is_printed_with_its_verdict_and_the_places_of_wrong_records() -> None:
    item = model_of(Audit).of(audit(AuditState.DONE, result=broken_result())).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    text = printed.get()
    assert "flights  broken" in text
    assert "2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected." in text
    assert "in-1@41" in text
    assert "out-2@17, out-2@30" in text


def test_unknown_figure_is_printed_as_a_dash() -> None:
    unclear = result(counts=AuditCounts(inputs=2, expected=2, outputs=1, unreadable_output=1))
    item = model_of(Audit).of(audit(AuditState.DONE, result=unclear)).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    figures = {words[0]: words[-1] for line in printed.get().splitlines() if (words := line.split())}
    assert figures["lost"] == "–"
    assert figures["expected"] == "2"


def test_dangling_reference_is_printed_with_its_file() -> None:
    item = model_of(Audit).of(audit(AuditState.DONE, result=dangling_result())).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    text = printed.get()
    assert "files verified and read: 2, dangling references: 1" in text
    [line] = [line for line in text.splitlines() if "flights/carrier=UA/00ff.avro" in line]
    assert line.split()[0] == "out-0@12"
    assert line.rstrip().endswith("is not there")


class RecordingClient:
    """Answers like the server, and records what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def get(self, path: str, **parameters: object) -> Any:
        del path, parameters
        return model_of(AuditPlan).of(plan(comparison=COMPARED)).model_dump(mode="json")

    def post(self, path: str, body: Any) -> Any:
        self.sent.append((path, body))
        return model_of(Audit).of(audit(comparison=COMPARED)).model_dump(mode="json")

    def put(self, path: str, body: Any) -> Any:
        self.sent.append((path, body))
        return self.get(path)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> RecordingClient:
    made = RecordingClient()
    monkeypatch.setattr(comparisons, "connect", lambda: made)
    return made


def compare(*arguments: str) -> str:
    result = CliRunner().invoke(build("compare"), ["compare", "flights", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_comparison_is_requested_with_its_rules(client: RecordingClient) -> None:
    compare("--with", "csv:file:///old", "--id", "json:id", "--baseline-time", "at", "--ignore", "a", "--ignore", "b.c")
    ((path, body),) = client.sent
    assert path == "/pipelines/flights/comparisons"
    assert body["comparison"]["baseline"] == {"of": "files", "format": "csv", "location": "file:///old"}
    rules = body["comparison"]
    assert (rules["baseline_time_field"], list(rules["ignored_fields"])) == ("at", ["a", "b.c"])
    compare("--from", "2h")
    assert "comparison" not in client.sent[-1][1], "as in the plan"


def test_comparison_plan_keeps_what_is_not_given(client: RecordingClient) -> None:
    assert "flights is compared with the topic old-payments, every 1h" in compare("--every", "15m")
    ((path, body),) = client.sent
    assert path == "/pipelines/flights/comparison-plan"
    assert (body["every_s"], body["comparison"]["baseline"]["topic"]) == (900, "old-payments")


def test_place_of_the_id_changes_without_the_rest_of_a_comparison_plan(
    client: RecordingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "connect", lambda: client)
    arguments = ["audits", "plan", "flights", "--comparison", "--id", "json:other"]
    result = CliRunner().invoke(build("audits"), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    ((path, body),) = client.sent
    assert path == "/pipelines/flights/comparison-plan"
    assert (body["id_place"]["path"], body["comparison"]["baseline"]["topic"]) == ("other", "old-payments")


@pytest.mark.parametrize("rule", [("--ignore", "a"), ("--number-tolerance", "0.1"), ("--url", "jdbc:postgresql://db")])
def test_rule_without_a_baseline_is_refused(client: RecordingClient, rule: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match="requires --with"):
        compare(*rule)
    assert client.sent == []


def test_text_that_is_no_baseline_is_refused_before_the_request(client: RecordingClient) -> None:
    with pytest.raises(CommandError, match="--with `old`: expected topic:NAME"):
        compare("--with", "old")
    assert client.sent == []


def test_comparison_is_printed_with_fields_and_values() -> None:
    shown = with_ids(audit(AuditState.DONE, comparison=COMPARED, result=compared_result())).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(shown))
    text = printed.get()
    assert "duplicated_in_baseline" in text
    assert "customer.name" in text
    assert "Ada Lovelace" in text
    assert "old-payments-0@41" in text
