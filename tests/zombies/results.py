"""The results, kept in tests/results/zombies.json, and the page that is made of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from tests.fault_suite.freeze_points import Point
from tests.mutations.results import Circumstances
from tests.zombies.cases import MUST_DOUBLE, Case, Move, Wake, every_case
from tests.zombies.playing import FIRST, PARTITIONS, THEN, Found

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "tests" / "results" / "zombies.json"
PAGE = _ROOT / "docs" / "measured" / "zombies.md"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    move: Move
    point: Point
    wake: Wake
    protocol: GroupProtocol
    found: Found
    seconds: int
    under: Circumstances

    @property
    def case(self) -> Case:
        return Case(self.move, self.point, self.wake, self.protocol)


def read(path: Path = RESULTS) -> dict[Case, Found]:
    """Empty where nothing has been played yet."""
    return {result.case: result.found for result in kept(path)}


def keep(result: Result, path: Path = RESULTS) -> None:
    """In the place of what was found of the same case before; with the page that is made of all."""
    by_case = {one.case: one for one in kept(path)} | {result.case: result}
    results = [by_case[case] for case in every_case() if case in by_case]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(page(results), encoding="utf-8")


def kept(path: Path = RESULTS) -> list[Result]:
    return msgspec.json.decode(path.read_bytes(), type=list[Result]) if path.exists() else []


def missing(found: dict[Case, Found]) -> list[Case]:
    return [case for case in every_case() if case not in found]


_BEGINNING = f"""# Zombies of a migration

For developers and reviewers: what a frozen instance can do in each stage of a [migration](../migration.md) after its
thaw. A migration is safe only if no zombie commits records that its successors have processed.

`make zombies` plays each case on a real broker and makes this page. `make test` plays each freeze point forward and
back, and one case of the switch in one step, drawn by its seed.

1. A process is stopped by SIGSTOP at a named point of its loop, with {THEN} records of each of {PARTITIONS} partitions
   in progress. It has committed {FIRST} of each before, if it had come so far.
2. Its session ends after 3 s, in a KIP-848 group after the 10 s of the test's brokers. Its successors take over.
3. It is thawed before or after its transaction timeout, and drained.
4. A last instance processes the rest, and the verifier counts the records in the sink.

No id is fenced by hand and no gate is asked, so the cases show the effect of the *order* of the bounces. A cell has the
result, and Kafka's answer to the zombie if it was refused (`fenced` and `aborted` without a more exact answer).

**The switch in one step is the negative control.** A removed member may still commit for the group alone, and its
successor initialises another id, so the zombie's epoch stays valid. It duplicates records if it has not sent its
offsets. It does not in these cases:

- Its offsets are pending: the successor waits until it commits or its transaction times out.
- It is thawed after the timeout, and the coordinator knew its transaction: it was aborted, and the epoch raised.
- It has no records in progress, or polls the group before it commits.
"""


def page(results: list[Result]) -> str:
    parts = [_BEGINNING]
    by_case = {result.case: result for result in results}
    for wake in Wake:
        parts += [f"## Thaw {wake}", "", _heading(), "|" + "---|" * (len(Point) + 3)]
        for move in Move:
            for protocol in move.protocols:
                cells = [_cell(by_case.get(Case(move, point, wake, protocol))) for point in Point]
                who = f"{move.zombie} → {', then '.join(move.takers)}"
                parts.append(f"| {move} | {who} | {protocol} | " + " | ".join(cells) + " |")
        parts.append("")
    parts += _circumstances(results)
    return "\n".join(parts)


def _heading() -> str:
    return "| stage | zombie → successors | group | " + " | ".join(point.replace("-", " ") for point in Point) + " |"


def _cell(result: Result | None) -> str:
    if result is None:
        return "not played"
    found = result.found
    wrong = [
        f"{count} {what}"
        for count, what in (
            (found.lost, "lost"),
            (found.duplicated, "duplicated"),
            (found.unexpected, "unexpected"),
            (found.out_of_order, "out of order"),
        )
        if count
    ]
    became = f"**{', '.join(wrong)}** of {found.expected}" if wrong else "exact"
    return became if found.told is None else f"{became} (`{found.told}`)"


def _circumstances(results: list[Result]) -> list[str]:
    if not results:
        return []
    under = [result.under for result in results]
    versions = {f"{name} {version}" for one in under for name, version in one.versions.items()}
    commits = sorted({f"`{one.commit[:10]}`" + (" and changes" if one.changed_since_commit else "") for one in under})
    return [
        (
            f"{len(results)} cases, {sum(result.seconds for result in results) / 60:.0f} minutes of playing, from "
            f"{min(one.date for one in under)} to {max(one.date for one in under)}, at {', '.join(commits)}. "
            f"{', '.join(sorted(versions))}. The switch in one step must duplicate records in {len(MUST_DOUBLE)} "
            "cases, or `make zombies` fails; every other stage must be exact in all."
        ),
        "",
    ]
