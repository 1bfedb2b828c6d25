"""The results, kept in tests/results/mutations.json, and the page that is made of them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.maven import KAFKA_VERSION
from tests.mutations.drawn import Drawn, RunFound
from tests.mutations.mutations import MUTATIONS, STORY, Mutation
from tests.mutations.playing import Found, Played
from tests.mutations.switches import Switch
from tests.support.results import git, is_changed_since_commit

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "tests" / "results" / "mutations.json"
PAGE = _ROOT / "docs" / "measured" / "mutations.md"


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


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    protocol: GroupProtocol
    as_it_is: RunFound
    neither: RunFound
    seconds: int
    under: Circumstances


class Results(msgspec.Struct):
    """The results of scenes by protection and group protocol, of random runs by protection."""

    scenes: dict[Switch, dict[GroupProtocol, Result]] = msgspec.field(
        default_factory=dict[Switch, dict[GroupProtocol, Result]]
    )
    runs: dict[Switch, RunResult] = msgspec.field(default_factory=dict[Switch, RunResult])


def circumstances() -> Circumstances:
    return Circumstances(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=git("rev-parse", "HEAD"),
        changed_since_commit=is_changed_since_commit(),
        versions={
            "Kafka": KAFKA_VERSION,
            "confluent-kafka": version("confluent-kafka"),
            "librdkafka": confluent_kafka.libversion()[0],
            "Python": platform.python_version(),
        },
    )


def read(path: Path = RESULTS) -> Results:
    """Empty where nothing has been played yet."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def write(results: Results, path: Path = RESULTS) -> None:
    """With the page that is made of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(page(results), encoding="utf-8")


_BEGINNING = """# Mutations of the loop

For developers: the damage without each protection of the loop. A suite that cannot fail proves nothing, so each
protection is switched off, and the suite must find lost or duplicated records.

`make mutations` plays the scenes on a real broker and makes this page; `make test` plays one of them, drawn by its
seed. Methods of the loop are replaced from outside
([ADR](../adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)); a missing one fails a test. The verifier counts
the records in the sink.

Some protections have a *guard*, which would hide their absence. Then a scene is played four times: with both, with the
guards alone, with the protection alone, which must suffice, and with neither.

## Scenes

| protection | without it | scene | both | guards alone | protection alone | neither |
|---|---|---|---|---|---|---|
"""
_STORY = """
## Faults of a debugging story

A similar pipeline on another library lost records at rebalances, until six fixes (Vigoo, *ZIO Kafka with transactions:
a debugging story*, 2022). The table has the six, and the damage in a file pipeline without the protection and its
guards:

| fault of the story | protection | damage |
|---|---|---|
"""
_RUNS = """
## Random runs

The same faults, drawn from a seed as in `make faults`, over one pipeline: with both, and with neither. The seed is the
smallest whose first fault has the moment and duration that the damage takes.

| protection | faults | seed | pipeline | both | neither |
|---|---|---|---|---|---|
"""
_GUARDS = """
## Guards

| protection | guard | reason |
|---|---|---|
"""
_WHEN = """
## Dates and versions

| protection | played as | date | duration | commit |
|---|---|---|---|---|
"""


def _name(switch: Switch) -> str:
    return f"`{switch}`"


def page(results: Results) -> str:
    return (
        _BEGINNING
        + "".join(_row(mutation, results.scenes.get(mutation.protection, {})) for mutation in MUTATIONS)
        + _STORY
        + "".join(_cells(one.fault, _name(one.protection), one.why) for one in STORY)
        + _RUNS
        + "".join(_run(mutation, results.runs.get(mutation.protection)) for mutation in MUTATIONS)
        + _GUARDS
        + "".join(
            _cells(_name(mutation.protection), _name(guard.switch), guard.kept)
            for mutation in MUTATIONS
            for guard in mutation.guards
        )
        + _WHEN
        + "".join(_when(results))
        + f"\nVersions: {'; '.join(_versions(results))}.\n"
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
        f"{_name(mutation.protection)}: {mutation.does}",
        mutation.without,
        f"`{mutation.scene.__name__}`: {scene[0].lower()}{scene[1:].removesuffix('.')}",
        found(lambda played: played.as_it_is),
        found(lambda played: played.guards_alone),
        found(lambda played: played.protection_alone),
        found(lambda played: played.neither),
    )


def _run(mutation: Mutation, result: RunResult | None) -> str:
    drawn = mutation.drawn
    if isinstance(drawn, str):
        return _cells(_name(mutation.protection), f"none: {drawn}", "", "", "", "")
    if result is None:
        return _cells(
            _name(mutation.protection),
            _kinds(drawn),
            str(drawn.seed),
            _settings(drawn).removeprefix(", "),
            "not run yet",
            "not run yet",
        )
    return _cells(
        _name(mutation.protection),
        _kinds(drawn),
        str(result.seed),
        f"{result.protocol} group{_settings(drawn)}",
        _run_said(result.as_it_is),
        _run_said(result.neither),
    )


def _kinds(drawn: Drawn) -> str:
    return f"{drawn.faults} of: {', '.join(drawn.kinds)}"


def _settings(drawn: Drawn) -> str:
    return "".join(f", `{name}` {value:,}" for name, value in drawn.settings.items())


def _run_said(found: RunFound) -> str:
    wrong = {
        "lost": found.lost,
        "duplicated": found.duplicated,
        "transactions torn": found.torn,
        "out of order": found.out_of_order,
    }
    said = ", ".join(f"{number:,} {what}" for what, number in wrong.items() if number)
    if said:
        return f"**{said}** of {found.records:,} records"
    return f"exact, {found.records:,} records" if found.is_exact else f"failed: {found.failure}"


def _said(found: Found | None) -> str:
    if found is None:
        return "no guards"
    if found.is_exact:
        return "exact"
    wrong = {"lost": found.lost, "duplicated": found.duplicated}
    said = " and ".join(f"{number:,} {what}" for what, number in wrong.items() if number)
    return f"**{said}** of {found.expected:,}"


def _when(results: Results) -> Iterator[str]:
    for mutation in MUTATIONS:
        for protocol, result in sorted(results.scenes.get(mutation.protection, {}).items()):
            yield _under(mutation, f"scene, {protocol} group", result.seconds, result.under)
        if (run := results.runs.get(mutation.protection)) is not None:
            yield _under(mutation, f"random run, {run.protocol} group", run.seconds, run.under)


def _under(mutation: Mutation, what: str, seconds: int, under: Circumstances) -> str:
    return _cells(
        _name(mutation.protection),
        what,
        under.date,
        f"{seconds} s",
        f"`{under.commit[:10]}`{', changed' if under.changed_since_commit else ''}",
    )


def _versions(results: Results) -> list[str]:
    under = [one.under for played in results.scenes.values() for one in played.values()]
    under += [run.under for run in results.runs.values()]
    return sorted({", ".join(f"{name} {number}" for name, number in one.versions.items()) for one in under})


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def missing_scenes(results: Results) -> list[str]:
    """The missing parts of the page. A random run that was not made is reported as such."""
    return [
        f"{mutation.protection}, {protocol}"
        for mutation in MUTATIONS
        for protocol in GroupProtocol
        if protocol not in results.scenes.get(mutation.protection, {})
    ]
