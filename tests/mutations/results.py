"""What was found, kept in tests/results/mutations.json, and the page that is made of it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import msgspec

from app.domain.pipelines.pipeline import GroupProtocol
from app.embedded.maven import KAFKA_VERSION
from tests.mutations.mutations import MUTATIONS, Mutation
from tests.mutations.playing import Found, Played
from tests.mutations.switches import Switch
from tests.support.results import git

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "tests" / "results" / "mutations.json"
PAGE = _ROOT / "docs" / "mutations.md"


class Circumstances(msgspec.Struct, frozen=True):
    """changed_since_commit: the commit alone does not say what was run."""

    date: str
    commit: str
    changed_since_commit: bool
    versions: dict[str, str]


class Result(msgspec.Struct, frozen=True):
    played: Played
    seconds: int
    under: Circumstances


Results = dict[Switch, dict[GroupProtocol, Result]]


def circumstances() -> Circumstances:
    return Circumstances(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=git("rev-parse", "HEAD"),
        changed_since_commit=bool(git("status", "--porcelain", "--untracked-files=no")),
        versions={
            "Kafka": KAFKA_VERSION,
            "confluent-kafka": version("confluent-kafka"),
            "librdkafka": confluent_kafka.libversion()[0],
            "Python": platform.python_version(),
        },
    )


def read(path: Path = RESULTS) -> Results:
    """Empty where nothing has been played yet."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else {}


def keep(protection: Switch, protocol: GroupProtocol, result: Result, path: Path = RESULTS) -> None:
    """In place of what was found before; the page is written anew."""
    results = read(path)
    results.setdefault(protection, {})[protocol] = result
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(page(results), encoding="utf-8")


_BEGINNING = """# Mutations: what each protection is there for

A test suite that cannot fail proves nothing. So each protection of the loop is switched off, and the suite must see
records lost or doubled. `make mutations` plays the scenes below on a real broker and makes this page; `make test` plays
one of them, drawn by its seed. Nothing in the product knows of it: methods of the loop are replaced from outside
([ADR](adr/0047-protections-are-switched-off-from-outside.md)), and a test fails when one of them is not there any more.

Some protections stand behind one another. What would hide that one is gone is a *guard* of it, and is switched off too.
Then a scene is played four times: as it is; with the guards alone; with the protection alone, which must do; and with
neither. What the loop did is not asked: the verifier reads the sink and counts.

| protection: what the loop does | without it | scene | as it is | guards alone | protection alone | neither |
|---|---|---|---|---|---|---|
"""
_GUARDS = """
## The guards, and why they are kept

| of | guard | why it is kept |
|---|---|---|
"""
_WHEN = """
## Played

| protection | group protocol | date | took | commit | versions |
|---|---|---|---|---|---|
"""


def page(results: Results) -> str:
    return (
        _BEGINNING
        + "".join(_row(mutation, results.get(mutation.protection, {})) for mutation in MUTATIONS)
        + _GUARDS
        + "".join(
            _cells(mutation.protection, guard.switch, guard.kept) for mutation in MUTATIONS for guard in mutation.guards
        )
        + _WHEN
        + "".join(_when(results))
    )


def _row(mutation: Mutation, results: dict[GroupProtocol, Result]) -> str:
    def found(of: Callable[[Played], Found | None]) -> str:
        said = {protocol: _said(of(result.played)) for protocol, result in sorted(results.items())}
        if not said:
            return "not played yet"
        if len(set(said.values())) == 1:
            return next(iter(said.values()))
        return "; ".join(f"{protocol}: {what}" for protocol, what in said.items())

    scene = " ".join((mutation.scene.__doc__ or "").split())
    return _cells(
        f"**{mutation.protection}**: {mutation.does}",
        mutation.without,
        f"`{mutation.scene.__name__}`: {scene[0].lower()}{scene[1:].removesuffix('.')}",
        found(lambda played: played.as_it_is),
        found(lambda played: played.guards_alone),
        found(lambda played: played.protection_alone),
        found(lambda played: played.neither),
    )


def _said(found: Found | None) -> str:
    if found is None:
        return "has none"
    if found.is_exact:
        return "exact"
    wrong = {"lost": found.lost, "duplicated": found.duplicated}
    said = " and ".join(f"{number:,} {what}" for what, number in wrong.items() if number)
    return f"**{said}** of {found.expected:,}"


def _when(results: Results) -> Iterator[str]:
    for mutation in MUTATIONS:
        for protocol, result in sorted(results.get(mutation.protection, {}).items()):
            under = result.under
            yield _cells(
                mutation.protection,
                protocol,
                under.date,
                f"{result.seconds} s",
                f"`{under.commit[:10]}`{', changed' if under.changed_since_commit else ''}",
                ", ".join(f"{name} {number}" for name, number in under.versions.items()),
            )


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def not_played(results: Results, protocols: Sequence[GroupProtocol] = tuple(GroupProtocol)) -> list[str]:
    """Which rows say nothing yet, or not for every protocol."""
    return [
        f"{mutation.protection}, {protocol}"
        for mutation in MUTATIONS
        for protocol in protocols
        if protocol not in results.get(mutation.protection, {})
    ]
