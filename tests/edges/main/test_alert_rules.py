"""The example rules of deploy/ use metrics and labels that the server has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.core.fencing.fencing_event import FencingCause
from app.core.hanging.report import SearchReport
from app.core.lag.movement import LagState
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring
from app.kit.access import Role
from app.products.audits.audit import ENDED
from app.products.audits.result import AuditVerdict
from tests.support.fencing import register
from tests.support.fixtures import AsRole
from tests.support.observing import cluster

RULES = Path(__file__).parents[3] / "deploy/prometheus-alerts.yml"
WORDS = {
    "cause": set(FencingCause),
    "phase": set(ReadingPhase),
    "is_fencing": {"true", "false"},
    "outcome": {"committed", "aborted"},
    "state": {state.name.lower() for state in LagState},
    "end": {*AuditVerdict, *ENDED},
}
"""The values of a label; a rule with another one would never fire."""


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


@pytest.fixture
async def described(api_wiring: Wiring, as_role: AsRole) -> str:
    """Return /metrics with a registered and observed cluster."""
    await register(api_wiring.unit_of_work, "c", "kafka-1")
    observations: Observations = api_wiring.observations
    observations.publish(cluster().snapshot(now_ms=1))
    observations.note_search(SearchReport(cluster="c", swept_ms=1))
    viewer: httpx.AsyncClient = await as_role(Role.VIEWER)
    return (await viewer.get("/metrics")).text


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_rule_uses_existing_metrics(rule: dict[str, Any], described: str) -> None:
    names = re.findall(r"fenceline_\w+", rule["expr"])
    assert names
    for name in names:
        assert re.search(rf"^# TYPE {name.removesuffix('_total')}(_total)? ", described, re.MULTILINE), name
    for label, asked in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]+)"', rule["expr"]):
        assert set(asked.split("|")) <= WORDS[label], f"{label}={asked}"
    said = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    kept = set(re.findall(r"by \(([^)]*)\)", rule["expr"]))
    assert len(kept) <= 1, "sides with other labels never meet"
    assert said <= {label for labels in kept for label in labels.split(", ")}, (
        "an annotation names a label that is dropped"
    )
