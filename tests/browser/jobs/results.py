"""docs/measured/jobs.md from tests/results/jobs.json: `python -m tests.browser.jobs.results`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.support.results import git, is_changed_since_commit

_ROOT = Path(__file__).parents[3]
RESULTS = _ROOT / "tests" / "results" / "jobs.json"
PAGE = _ROOT / "docs" / "measured" / "jobs.md"
_BEGINNING = """# Jobs in the browser

For developers and reviewers: the clicks and seconds of ten jobs, from the overview to the answer. `make
jobs` runs them on a real broker, Postgres and Chromium, and makes this page of `tests/results/jobs.json`.

A job begins with the overview on the screen, and follows visible links only. Its test fails if it needs one click,
field, key or page more than here. Seconds are those of the machine: a person also reads and thinks. They are recorded
only.

"""
_HANDS = {
    "mouse": (
        "By mouse",
        "At 1440 pixels, in light. Its main pages are also checked by axe-core, and in dark at 1024 and 375 pixels.",
    ),
    "keys": (
        "By keys alone",
        (
            "Keys are Enter and Ctrl-K. Tabs are the steps of the focus and of choices. Their number depends on the "
            "other links of a page. At each step the focus is visible, and not covered."
        ),
    ),
    "plain": ("Without JavaScript", "Changes of a page need a reload, which counts as a page."),
}
_CHARGED = {
    "mouse": ("clicks", "fields", "pages"),
    "keys": ("keys", "fields", "tabs", "pages"),
    "plain": ("clicks", "fields", "pages"),
}


class Effort(msgspec.Struct):
    """Counts of one job.

    fields: typed or chosen. keys: Enter and shortcuts. tabs: Tab and arrows. pages: documents that were loaded.
    """

    clicks: int = 0
    fields: int = 0
    keys: int = 0
    tabs: int = 0
    pages: int = 0

    def is_within(self, most: Effort) -> bool:
        """Compare all counts but the tabs."""
        return all(getattr(self, name) <= getattr(most, name) for name in ("clicks", "fields", "keys", "pages"))


class Result(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    hand: str
    effort: Effort
    seconds: float


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """changed_since_commit: the commit alone does not say what was run. load: the machine's, over 5 minutes."""

    commit: str
    changed_since_commit: bool
    date: str
    load: float
    cores: int
    results: tuple[Result, ...]


def read(path: Path = RESULTS) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Sequence[Result], path: Path) -> None:
    """Write what one run has measured, with its commit and date."""
    found = Results(
        commit=git("rev-parse", "HEAD"),
        changed_since_commit=is_changed_since_commit(),
        date=datetime.now(UTC).isoformat(timespec="minutes"),
        load=round(os.getloadavg()[1], 1),
        cores=os.cpu_count() or 1,
        results=tuple(results),
    )
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def page(results: Results) -> str:
    """The page: one table for each hand, the jobs in the order of the run."""
    changed = " and changes" if results.changed_since_commit else ""
    machine = f"on {results.cores} shared cores under a load of {results.load}"
    parts = [_BEGINNING, f"Measured {results.date[:10]} at `{results.commit[:10]}`{changed}, {machine}.\n"]
    for hand, (title, about) in _HANDS.items():
        counts = _CHARGED[hand]
        rows = [one for one in results.results if one.hand == hand]
        parts.append(
            f"\n## {title}\n\n{about}\n\n| job | {' | '.join(counts)} | seconds |\n|---|{'---|' * len(counts)}---|\n"
        )
        parts.extend(_row(one, counts) for one in rows)
    return "".join(parts)


def _row(one: Result, counts: Sequence[str]) -> str:
    effort: Mapping[str, int] = msgspec.to_builtins(one.effort)
    return f"| {one.job} | {' | '.join(str(effort[count]) for count in counts)} | {one.seconds:.1f} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
