"""docs/benchmark.md and its pictures from bench/results/latest.json: `python -m bench.peers.page`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.machine import RESULTS
from bench.peers.ratios import interval

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "benchmark.md"
PICTURES = DOCS / "images"
_INK = "#808890"
_OURS, _THEIRS, _LIMIT = "#2b8fd9", "#9aa4ae", "#c8b273"
_mpl: Any = mpl
"""It is typed in part only."""
_BEGINNING = """# The loop against its peers

People believe that exactly-once is slow, and that Python is slower. `make bench` takes the same records through each
system in turn, on one broker in one run, and judges what came out; `python -m bench.peers.page` makes this page of what
it found. `bench/results/latest.json` has every round. Which settings each system runs with, and why its records are
believed, is in `bench/peers/systems.py`, `work.py` and `measuring.py`.

A run is measured when it is warm, by how the last stable offset of the sink grows. Then the system is stopped, and all
that it has committed is read under `read_committed`: every id of the input up to the last one that came out, once, or
at least once, as the system promises. The *limit* is one Python process that consumes and produces, idempotent, with no
transactions, offsets or checks, at the same settings. Ratios are of the same round; the median over the rounds stands
with its 95 % bootstrap interval.
"""


def page(report: Mapping[str, Any]) -> str:
    on = report["machine"]
    lines = [
        _BEGINNING,
        (
            f"{'**Quick**: 3 rounds of 10 s. ' if report['quick'] else ''}Measured {on['measured_at']} on "
            f"{on['cores']} cores and {on['memory_gb']} GB that the broker and the systems share, load before "
            f"{on['load_before']}; each measurement {report['seconds']:g} s, {report['warm_s']:g} s after the first output. "
            + ", ".join(f"{name} {version}" for name, version in report["versions"].items())
            + "."
        ),
        "",
        "| what | wanted | median of the rounds | 95 % interval | rounds |",
        "|---|---|---|---|---|",
    ]
    for row, goal in report.get("goals", {}).items():
        found = goal["ratio"]
        lines.append(
            f"| {row} | at least {goal['at_least']:g} | **{found['median']:.2f}** | {found['low']:.2f} to "
            f"{found['high']:.2f} | {len(found['rounds'])} |"
        )
    for name, meeting in report["meetings"].items():
        lines += ["", f"## {name[0].upper()}{name[1:]}", ""]
        lines += [f"![records a second](images/{_slug(name)}.svg)", ""]
        lines += ["| system | records/s, median | 95 % interval | lowest, highest | first output | judged |"]
        lines += ["|---|---|---|---|---|---|"]
        for system, rounds in meeting["systems"].items():
            if rounds:
                lines.append(_row(system, rounds))
    return "\n".join(lines) + "\n"


def _row(system: str, rounds: list[dict[str, Any]]) -> str:
    rates = [one["records_per_second"] for one in rounds]
    low, high = interval(rates)
    outputs, doubled = sum(one["outputs"] for one in rounds), sum(one["duplicated"] for one in rounds)
    lost = sum(one["lost"] for one in rounds)
    return (
        f"| {system} | {statistics.median(rates):,.0f} | {low:,.0f} to {high:,.0f} | {min(rates):,.0f}, "
        f"{max(rates):,.0f} | {statistics.median(one['began_s'] for one in rounds):.1f} s | {outputs:,} records, "
        f"lost {lost:,}, doubled {doubled:,} |"
    )


def _slug(name: str) -> str:
    return "bench-" + "-".join("".join(c if c.isalnum() else " " for c in name).split()).lower()


def picture(meeting: Mapping[str, Any]) -> Any:
    """A bar for each system, a point for each of its rounds."""
    with _mpl.rc_context(
        {"text.color": _INK, "axes.edgecolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "axes.labelcolor": _INK}
    ):
        found = {
            name: [one["records_per_second"] for one in rounds] for name, rounds in meeting["systems"].items() if rounds
        }
        drawn: Any = Figure(figsize=(9, 0.6 + 0.38 * len(found)), layout="constrained")
        axes = drawn.subplots()
        for at, (name, rates) in enumerate(found.items()):
            colour = _OURS if name.startswith("fenceline") else _LIMIT if name == "limit" else _THEIRS
            axes.barh(at, statistics.median(rates) / 1000, color=colour, alpha=0.75)
            axes.plot([rate / 1000 for rate in rates], [at] * len(rates), "|", color=_INK, markersize=9)
        axes.set_yticks(range(len(found)), list(found))
        axes.invert_yaxis()
        axes.set_xlabel("thousand records a second")
        axes.grid(axis="x", color=_INK, alpha=0.25)
        axes.spines[["top", "right", "left"]].set_visible(False)
        return drawn


def main() -> None:
    report = json.loads((RESULTS / "latest.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    with _mpl.rc_context({"svg.hashsalt": "fenceline", "svg.fonttype": "none"}):
        for name, meeting in report["meetings"].items():
            if any(meeting["systems"].values()):
                metadata = {"Date": None, "Creator": None}
                picture(meeting).savefig(PICTURES / f"{_slug(name)}.svg", transparent=True, metadata=metadata)


if __name__ == "__main__":
    main()
