"""README and docs/ name only what there is: files, tests, commands, make targets, REST paths and measured figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from app.edges.cli import build
from bench.table import page

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "deploy/README.md", *ROOT.glob("docs/**/*.md")])
ROOMS = ("app", "bench", "deploy", "docs", "migrations", "requirements", "templates", "tests", "workers")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})/[\w./*-]*\w")
TEST = re.compile(r"\btest_\w+(?:\.py|…)?")
COMMAND = re.compile(r"\bfenceline((?: [a-z][a-z|-]*\b)+)")
FAULT_ROW = re.compile(r"^\|.*\| ([\d.]+) s \| ([\d.]+) s \|$", re.MULTILINE)
WRITTEN_BY_A_RUN = {"tests/results/all.json", "tests/results/faults.jsonl", "tests/results/file_faults.jsonl"}
STATUS = re.compile(
    r"Status: (?:accepted|superseded by \[\d{4}\]\(\d{4}-[a-z0-9-]+\.md\)), \d{4}-\d\d-\d\d"
    r"(?:; changed \d{4}-\d\d-\d\d)?"
)
NOT_PLAIN = re.compile(
    r"\b(?:told|said|heard|words?|silent|silence|held back|readable end|thrown away|nobody|somebody|whoever|strangers?"
    r"|put out|mend(?:ed)?|hopeless|given up|looks?|leaves?|heed|standing)\b",
    re.IGNORECASE,
)
"""Words in place of which Kafka, Spark or plain English has a better one."""
DECISION_NUMBER = re.compile(r"(?:\badr/|\bADRs?\s+(?:#\s+)?)(\d{4})\b")
ALL = pytest.mark.parametrize("document", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])


def code_in(text: str) -> Iterator[str]:
    """What stands between backticks: fenced blocks, then the rest's inline pieces."""
    fenced = re.compile(r"```.*?```", re.DOTALL)
    yield from fenced.findall(text)
    yield from re.findall(r"`([^`]+)`", fenced.sub("", text))


def anchors_of(page: Path) -> set[str]:
    """The fragments of a page's headings, as forges make them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names_of_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= {path.name, *re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)}
    return found


@ALL
def test_every_path_is_there(document: Path) -> None:
    text = document.read_text("utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    missing = [target for target in links if not (document.parent / target).exists()]
    for name in {name for code in code_in(text) for name in PATH.findall(code)} - WRITTEN_BY_A_RUN:
        there = any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()
        missing += [] if there else [name]
    assert missing == []


@ALL
def test_every_anchor_is_there(document: Path) -> None:
    """A link with a fragment leads to a heading."""
    links = re.findall(r"\]\(([^)#\s]*\.md)?#([^)\s]+)\)", document.read_text("utf-8"))
    missing = [
        f"{page}#{anchor}" for page, anchor in links if anchor not in anchors_of(document.parent / (page or document))
    ]
    assert missing == []


@ALL
def test_every_test_is_there(document: Path) -> None:
    """An ellipsis stands for the rest of a long name."""
    there = names_of_tests()

    def is_there(name: str) -> bool:
        return (
            any(one.startswith(name[:-1]) for one in there)
            if name.endswith("…")
            else {name, f"{name}.py"} & there != set()
        )

    named = set(TEST.findall(document.read_text("utf-8")))
    assert {name for name in named if not is_there(name)} == set()


@ALL
def test_every_command_and_target_is_there(document: Path) -> None:
    group = typer.main.get_command(build())
    assert isinstance(group, TyperGroup)
    commands = {
        name: set(command.commands) if isinstance(command, TyperGroup) else set[str]()
        for name, command in group.commands.items()
    }
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    missing: list[str] = []
    for code in code_in(document.read_text("utf-8")):
        missing += [f"make {target}" for target in re.findall(r"\bmake ([a-z-]+)\b", code) if target not in targets]
        for words in COMMAND.findall(code):
            name, *rest = words.split()
            known = commands.get(name)
            if known is None:
                missing.append(f"fenceline {name}")
            elif known and rest:
                missing += [f"fenceline {name} {word}" for word in rest[0].split("|") if word not in known]
    assert missing == []


def test_the_faults_of_the_table_have_the_figures_that_were_measured() -> None:
    measured: dict[str, dict[str, float]] = json.loads((ROOT / "bench/results/faults.json").read_text("utf-8"))
    figures = {(one["longest_gap_s"], one["as_before_after_s"]) for one in measured.values()}
    said = [(float(gap), float(back)) for gap, back in FAULT_ROW.findall((ROOT / "docs/spark.md").read_text("utf-8"))]
    assert len(said) > 10
    assert [row for row in said if row not in figures] == []


def test_the_page_of_speeds_is_made_of_the_results() -> None:
    written = (ROOT / "docs/measured/speed.md").read_text("utf-8")
    assert written == page(), "make it anew: python -m bench.table"


@pytest.mark.parametrize(("heading", "folder"), [("Nouns of the core", "app/core"), ("Workers", "workers")])
def test_architecture_has_a_row_for_each_folder(heading: str, folder: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    folders = [path.name for path in (ROOT / folder).iterdir() if (path / "__init__.py").exists()]
    assert sorted(named) == sorted(folders)


def decisions() -> list[Path]:
    return sorted((ROOT / "docs/adr").glob("[0-9]*.md"))


def test_no_two_decisions_have_one_number() -> None:
    """Numbers may be missing: whoever begins to write takes one, and not every draft becomes a decision."""
    numbers = [path.name[:4] for path in decisions()]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("decision", decisions(), ids=lambda path: path.name[:4])
def test_decision_has_its_number_a_plain_title_a_status_and_its_sections(decision: Path) -> None:
    lines = decision.read_text("utf-8").splitlines()
    number, _, title = lines[0].removeprefix("# ").partition(". ")
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower())
    assert decision.name == f"{number}-{slug}.md"
    assert len(title.split()) <= 12
    assert NOT_PLAIN.findall(title) == []
    assert STATUS.fullmatch(lines[2]), lines[2]
    sections = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert sections == ["Context", "Decision", "Consequences", "Rejected alternatives"]


def test_index_of_decisions_has_each_with_its_title() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d{4}) \| \[(.+)\]\((.+)\) \| .+ \|$", index, re.MULTILINE)
    titles = [path.read_text("utf-8").partition("\n")[0] for path in decisions()]
    assert [(f"# {number}. {title}", name) for number, title, name in sorted(rows)] == [
        (title, path.name) for title, path in zip(titles, decisions(), strict=True)
    ]


def test_every_number_of_a_decision_in_the_repository_is_one_that_there_is() -> None:
    """Links are checked above; this is about numbers alone, in comments, docstrings and configuration."""
    there = {path.name[:4] for path in decisions()}
    files = [
        path
        for room in (*ROOMS, "README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
        for path in ([ROOT / room] if (ROOT / room).is_file() else sorted((ROOT / room).rglob("*")))
        if path.name == "Makefile" or path.suffix in (".md", ".py", ".toml", ".txt", ".yml", ".html")
    ]
    unknown = {
        (str(path.relative_to(ROOT)), number)
        for path in files
        for number in DECISION_NUMBER.findall(path.read_text("utf-8"))
        if number not in there
    }
    assert unknown == set()
