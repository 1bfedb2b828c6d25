"""What was found, kept in tests/results/zombies.json, and the page that is made of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.domain.pipelines.pipeline import GroupProtocol
from tests.fault_suite.freeze_points import Point
from tests.mutations.results import Circumstances
from tests.zombies.cases import MUST_DOUBLE, Case, Move, Wake, every_case
from tests.zombies.playing import FIRST, PARTITIONS, THEN, Found

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "tests" / "results" / "zombies.json"
PAGE = _ROOT / "docs" / "zombies.md"


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

A zombie is an instance that stood still, with all of its threads, until the group had given its partitions to others,
and then goes on where it was. Moving an application from `exactly_once` to `exactly_once_v2` is safe only if no zombie
of any stage can commit what its successors have processed. `make zombies` plays each case on a real broker and makes
this page; `make test` plays each freeze point forward and back, and one of the switch in one step, drawn by its seed.

The zombie is a process, stopped by SIGSTOP at a named point of its loop with {THEN} records of each of {PARTITIONS}
partitions in its hands (it has committed {FIRST} of each before, where it had come so far); its session ends after
3 s, or after the 10 s of the test's brokers in a KIP-848 group. Its successors take over and process what they may;
then it is woken, before its transaction timeout or after it, and drained. A last one comes for what is left, and the
verifier counts what the sink holds. Nothing is fenced by hand here, and no gate is asked: the cases show what the
*order* of the bounces does.

In a cell stands what became of the records, and what the zombie was told by Kafka when it woke up (`fenced` and
`aborted` where it has said no more than that; nothing where nothing had to be refused).

**The switch in one step is the negative control.** Who commits for the group alone is refused by nobody once it is not
a member any more, and its successor has another id, so that no init of its has spent the zombie's epoch. It doubles
records where it has not sent its offsets yet. It does not where its offsets are pending: the successor waits for them,
until it commits or its transaction times out. It does not after its timeout where its transaction was known to the
coordinator: that has aborted it, and raised the epoch. And it does not where it has nothing in its hands, or meets the
group before it commits.
"""


def page(results: list[Result]) -> str:
    parts = [_BEGINNING]
    by_case = {result.case: result for result in results}
    for wake in Wake:
        parts += [f"## Woken {wake}", "", _heading(), "|" + "---|" * (len(Point) + 3)]
        for move in Move:
            for protocol in move.protocols:
                cells = [_cell(by_case.get(Case(move, point, wake, protocol))) for point in Point]
                who = f"{move.zombie} → {', then '.join(move.takers)}"
                parts.append(f"| {move} | {who} | {protocol} | " + " | ".join(cells) + " |")
        parts.append("")
    parts += _circumstances(results)
    return "\n".join(parts)


def _heading() -> str:
    return "| | zombie → successors | group | " + " | ".join(point.replace("-", " ") for point in Point) + " |"


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
            f"{', '.join(sorted(versions))}. Of the switch in one step, {len(MUST_DOUBLE)} cases must double records, "
            "or `make zombies` fails; every other stage must be exact in all."
        ),
        "",
    ]
