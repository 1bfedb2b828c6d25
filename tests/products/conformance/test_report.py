"""The report matches docs/conformance.schema.json, and a missing permission is never a kept guarantee."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from app.products.conformance.report import (
    CheckedBroker,
    CheckResult,
    ConformanceVerdict,
    Promise,
    Report,
    Setting,
    summary,
)
from app.products.conformance.rights import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, refusal
from tests.support.schemas import cleaned

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/conformance.schema.json").read_text("utf-8"))


def a_result(verdict: ConformanceVerdict = ConformanceVerdict.KEPT) -> CheckResult:
    return CheckResult(
        check="open-is-hidden", promise=Promise.ATOMICITY, claim="Hidden.", verdict=verdict, said="seen", took_s=0.5
    )


def a_report(*results: CheckResult) -> Report:
    return Report(
        at=datetime.now(UTC),
        fenceline_version="1",
        client_version="2.16.0",
        bootstrap_servers="broker:9092",
        cluster_id="c",
        brokers=(CheckedBroker(id=1, version="4.3"), CheckedBroker(id=2, version=None)),
        features={"transaction.version": 2},
        settings=(Setting(name="transaction.state.log.min.isr", values=("2",)),),
        replication_factor=2,
        results=results,
        left_behind=(),
        is_complete=True,
    )


def test_schema_of_the_docs_is_that_of_the_report() -> None:
    ours = cleaned(msgspec.json.schema(Report))
    assert {key: cleaned(SCHEMA)[key] for key in ours} == ours, (
        "write it again: its keys except title and $schema are these"
    )
    jsonschema.validate(json.loads(msgspec.json.encode(a_report(*map(a_result, ConformanceVerdict)))), SCHEMA)


def test_summary_counts_the_results() -> None:
    results = [a_result(), a_result(), a_result(ConformanceVerdict.NOT_CHECKED), a_result(ConformanceVerdict.BROKEN)]
    assert summary(results) == "2 kept, 1 broken, 1 not checked"
    assert summary([]) == ""


@pytest.mark.parametrize(
    ("code", "operation", "says"),
    [
        (TOPIC, None, "permission Write on topics that begin with p-1 is missing"),
        (TOPIC, "Create", "permission Create on topics that begin with p-1 is missing"),
        (GROUP, None, "permission Read on groups that begin with p-1 is missing"),
        (CLUSTER, None, "permission IdempotentWrite on the cluster is missing"),
        (TRANSACTIONAL_ID, None, "permission Write on transactional ids that begin with p-1 is missing"),
        (44, "Create", "the topic was refused: a policy"),
    ],
)
def test_missing_right_is_named(code: int, operation: str | None, says: str) -> None:
    found = refusal(code, "a policy", prefix="p-1", operation=operation, what="the topic was refused")
    assert (found.verdict, found.said) == (ConformanceVerdict.NOT_CHECKED, says)
