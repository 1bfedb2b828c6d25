"""docs/comparison.md: Fenceline's column is true, each cell has a meaning, and each number has a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI

PAGE = Path(__file__).parents[3] / "docs/comparison.md"
CELL = re.compile(r"(?P<word>yes|partly|licence|no|\?|–)(?: (?P<sources>\[[A-Z]\d+\]))?")
OURS = re.compile(r"(?:\[(?P<linked>yes|partly|no)\]\((?P<link>[\w.-]+\.md(?:#[\w-]+)?)\)|no)(?: [¹²³])?")
NUMBER = re.compile(r"\[([A-Z]\d+)\](?!:)")
UNDER_A_CLUSTER = r"/clusters/\{name\}.*"
WRITE = "(?:POST|PUT|PATCH|DELETE)"

ABSENT = {
    "Schemas managed": rf"\w+ {UNDER_A_CLUSTER}/(?:schemas|subjects)\b",
    "Topics created and changed": rf"{WRITE} {UNDER_A_CLUSTER}/topics(?:/\{{topic\}})?(?:/(?:settings|config))?",
    "ACLs changed": rf"{WRITE} {UNDER_A_CLUSTER}/acls?\b.*",
    "Connectors managed": rf"\w+ {UNDER_A_CLUSTER}/connect(?:s|ors)?\b.*",
    "Single sign-on by OIDC": r"\w+ .*/(?:oidc|oauth2?|sso|saml)\b.*",
    "Backpressure and flame graphs": r"\w+ .*/(?:backpressure|flame-?graphs?)\b.*",
}
"""Jobs with "no" for Fenceline, and the operations that would make them untrue."""

PRESENT = {
    "Lag in records": "GET /clusters/{name}/groups",
    "Members and their partitions": "GET /clusters/{name}/groups/{group}",
    "Offset reset with a preview": "POST /pipelines/{name}/offsets/preview",
    "Browser by time, key, value, header": "GET /clusters/{name}/topics/{topic}/records",
    "Producers and open transactions of a partition": "GET /clusters/{name}/topics/{topic}",
    "Transaction that blocks a reader": "GET /clusters/{name}/blocked-readers",
    "Hanging transactions found and ended": "POST /clusters/{name}/transactions/end",
    "History of producer epochs": "GET /clusters/{name}/transactional-ids/{transactional_id}",
    "Fencing events with causes": "GET /fencing",
    "Evidence of double processing": "GET /clusters/{name}/double-processing",
    "Jobs defined and launched": "POST /pipelines/{name}/runs",
    "History of a run": "GET /runs/{id}/events",
    "Outputs audited for exactly once": "POST /pipelines/{name}/audits",
    "Migration from v1 to v2": "POST /pipelines/{name}/migrations",
    "Deliberate failures with a verdict": "POST /pipelines/{name}/drills",
    "Alerts sent out": "POST /webhooks",
    "Log of users' changes": "GET /commands",
    "Several clusters in one instance": "POST /clusters",
}
"""Jobs that Fenceline does, and an operation of each."""


def rows() -> dict[str, list[str]]:
    """The cells of each job, by its name, without the groups' headings. Fenceline's is the first."""
    table = PAGE.read_text("utf-8").partition("\n## Table\n")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {name: cells for name, *cells in lines[2:] if not name.startswith("**")}


def operations(app: FastAPI) -> set[str]:
    """Method and path of each operation, with one name for each parameter's place: `GET /runs/{}`."""
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, described in app.openapi()["paths"].items()
        for method in described
    }


def without_names(operation: str) -> str:
    return re.sub(r"\{\w+\}", "{}", operation)


def test_each_cell_is_a_word_of_the_legend_and_each_job_of_ours_links_its_page() -> None:
    wrong: list[str] = []
    for job, (ours, *others) in rows().items():
        wrong += [] if OURS.fullmatch(ours) else [f"{job}: Fenceline: {ours}"]
        wrong += [f"{job}: {cell}" for cell in others if not CELL.fullmatch(cell)]
        wrong += [] if len(others) == 7 else [f"{job}: {len(others)} other tools"]
    assert len(rows()) > 25
    assert wrong == []


def test_each_partial_cell_of_another_tool_has_a_source() -> None:
    cells = [(job, cell) for job, (_, *others) in rows().items() for cell in others]
    assert [one for one in cells if one[1].split()[0] in ("yes", "partly", "licence") and "[" not in one[1]] == []


def test_each_number_has_an_address_and_an_explanation_and_each_address_a_number() -> None:
    text = PAGE.read_text("utf-8")
    explained = set(NUMBER.findall(text.partition("\n## Sources\n")[2]))
    used = set(NUMBER.findall(text))
    addresses = re.findall(r"^\[([A-Z]\d+)\]: https://\S+$", text, re.MULTILINE)
    assert len(addresses) == len(set(addresses))
    assert used == set(addresses)
    assert used - explained == set()


@pytest.mark.parametrize("job", ABSENT)
def test_a_job_that_fenceline_does_not_have_has_no_operation(job: str, app: FastAPI) -> None:
    """If this fails, Fenceline has learned the job: change its cell, and "Only in other tools"."""
    assert rows()[job][0] == "no"
    assert [one for one in operations(app) if re.fullmatch(ABSENT[job], one)] == []


def test_each_job_that_fenceline_has_has_its_operation(app: FastAPI) -> None:
    there = {without_names(one) for one in operations(app)}
    assert [job for job in PRESENT if rows()[job][0] == "no"] == []
    assert [(job, one) for job, one in PRESENT.items() if without_names(one) not in there] == []
