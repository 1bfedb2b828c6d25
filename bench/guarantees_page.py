"""docs/measured/guarantees.md and its picture from bench/results/guarantees.json: `python -m bench.guarantees_page`."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.machine import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
RESULT = RESULTS / "guarantees.json"
PAGE = DOCS / "measured" / "guarantees.md"
PICTURE = DOCS / "images" / "guarantees.svg"
_COLOURS = {"exactly_once": "#d9822b", "exactly_once_v2": "#2b8fd9"}
_INK = "#808890"
"""Readable on a light page and on a dark one; the picture itself has no ground."""


class Shown(NamedTuple):
    """A figure: its column, its plot (None: in the table alone), and how it is written."""

    key: str
    column: str
    plot: str | None
    written: Callable[[float], str]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


def _hundredths(value: float) -> str:
    return f"{value:,.2f}"


_mpl: Any = mpl
"""It is typed in part only."""

FIGURES = (
    Shown("records_per_second", "records/s at full speed", "records a second, full speed", _whole),
    Shown("commit_ms_p50", "commit, median, ms", "commit of a checkpoint, median, ms", _tenths),
    Shown("commit_ms_p99", "commit, p99, ms", None, _tenths),
    Shown("transactional_ids", "producers", "producers", _whole),
    Shown("threads", "threads", "threads of the workers", _whole),
    Shown("connections", "connections", "connections to the broker", _whole),
    Shown("memory_mb", "memory, MB", "memory of the workers, MB", _whole),
    Shown("broker_requests_per_second", "requests/s of the broker", "requests a second, steady load", _whole),
    Shown("broker_cores", "cores of the broker", "cores of the broker, steady load", _hundredths),
    Shown("worker_cores", "cores of the workers", None, _hundredths),
)
_BEGINNING = """# Costs of one producer for each partition

For operators who choose between `exactly_once` and `exactly_once_v2`: what each costs in records, threads, connections
and requests. `exactly_once` has one producer for each input partition, `exactly_once_v2` one for each task.

`exactly_once_v2` became possible with
[KIP-447](https://cwiki.apache.org/confluence/display/KAFKA/KIP-447%3A+Producer+scalability+for+exactly+once+semantics);
[migration.md](../migration.md) describes the change. `python -m bench.guarantees` measures both on one broker, and
`python -m bench.guarantees_page` makes this page of `bench/results/guarantees.json`.
"""
_ODD = 2.0
"""A figure is called odd if it is more than so many times the median of its rounds, or less than that part."""
_RATIOS = (
    "records_per_second",
    "commit_ms_p50",
    "broker_requests_per_second",
    "broker_cores",
    "worker_cores",
    "memory_mb",
)


def measured(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rounds that came through."""
    return [one for one in report["rounds"] if "failure" not in one]


def picture(report: Mapping[str, Any]) -> Any:
    """Each figure over the partitions: a line through the medians for each guarantee, and a dot for each round."""
    medians, rounds = report["medians"], measured(report)
    with _mpl.rc_context(
        {
            "svg.hashsalt": "fenceline",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 9,
            "text.color": _INK,
            "axes.edgecolor": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
        }
    ):
        shown = [figure for figure in FIGURES if figure.plot is not None]
        drawn: Any = Figure(figsize=(10, 2.4 * -(-len(shown) // 2) + 0.4), layout="constrained")
        for axes, figure in zip(drawn.subplots(-(-len(shown) // 2), 2).flat, shown, strict=True):
            for guarantee, colour in _COLOURS.items():
                of = [one for one in rounds if one["guarantee"] == guarantee]
                axes.scatter(
                    [one["partitions"] for one in of], [one[figure.key] for one in of], s=14, color=colour, alpha=0.35
                )
                found = [one for one in medians if one["guarantee"] == guarantee]
                axes.plot(
                    [one["partitions"] for one in found],
                    [one[figure.key] for one in found],
                    color=colour,
                    marker="o",
                    label=guarantee,
                )
            axes.set_title(figure.plot, loc="left", fontsize=10)
            axes.set_ylim(0, 1.08 * max(one[figure.key] for one in rounds))
            axes.set_xlim(0, 1.04 * max(one["partitions"] for one in rounds))
            axes.set_xticks(sorted({one["partitions"] for one in rounds}))
            axes.yaxis.set_major_formatter("{x:,.10g}")
            axes.grid(axis="y", color=_INK, alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        for axes in drawn.axes[-2:]:
            axes.set_xlabel("input partitions")
        drawn.legend(
            *drawn.axes[0].get_legend_handles_labels(),
            loc="outside upper left",
            ncols=2,
            frameon=False,
            labelcolor=_INK,
        )
        return drawn


def page(report: Mapping[str, Any]) -> str:
    """The page, of what `bench.guarantees` wrote."""
    return "\n".join([_BEGINNING, *_told(report), *_medians(report), *_ratios(report), *_odd(report)]) + "\n"


def _told(report: Mapping[str, Any]) -> list[str]:
    on = report["machine"]
    rounds = 1 + max(one["round"] for one in report["rounds"])
    changed = ", changed since" if report["changed_since_commit"] else ""
    return [
        (
            f"Measured {on['measured_at']} at commit `{report['commit'][:10]}`{changed}, on {on['cores']} cores that "
            f"the broker, {report['tasks']} tasks and the feeder share (load before: {on['load_before']}). {rounds} "
            f"rounds with records of {report['record_bytes']} bytes, identity, commits every 100 ms. *Full speed* "
            f"reads a topic of {report['records']:,} records to its end. All other columns are of a steady load of "
            f"{report['steady_per_second']:,} records/s for {report['steady_seconds']:g} s, with the feeder's "
            "requests. Threads, connections and memory are those of both workers together. After each measurement the "
            "sink had exactly the records that were fed."
        ),
        "",
        (
            "A checkpoint longer than the interval delays the next one. So slower commits are fewer and larger, with "
            "fewer requests. The p99 is of the last 512 commits of each task. With `exactly_once_v2` they include the "
            "slow first one, which finds the leaders of all partitions; with `exactly_once` they are of the last "
            "seconds. So compare p99 within one guarantee only."
        ),
        "",
        "![each figure over the partitions: the medians, and a dot for each round](../images/guarantees.svg)",
        "",
    ]


def _medians(report: Mapping[str, Any]) -> list[str]:
    lines = [
        "Medians of the rounds:",
        "",
        "| partitions | guarantee | " + " | ".join(figure.column for figure in FIGURES) + " |",
        "|" + "---|" * (len(FIGURES) + 2),
    ]
    lines += [
        f"| {one['partitions']} | `{one['guarantee']}` | "
        + " | ".join(figure.written(one[figure.key]) for figure in FIGURES)
        + " |"
        for one in report["medians"]
    ]
    return [*lines, ""]


def _ratios(report: Mapping[str, Any]) -> list[str]:
    """The two that were measured side by side, on the same machine at the same moment."""
    shown = [figure for figure in FIGURES if figure.key in _RATIOS]
    lines = [
        "## Ratios by round",
        "",
        ("`exactly_once` divided by `exactly_once_v2` of the same round: median, and each round in brackets."),
        "",
        "| partitions | " + " | ".join(figure.column for figure in shown) + " |",
        "|" + "---|" * (len(shown) + 1),
    ]
    pairs = {(one["partitions"], one["round"], one["guarantee"]): one for one in measured(report)}
    for partitions in sorted({one["partitions"] for one in report["rounds"]}):
        cells: list[str] = []
        for figure in shown:
            each = [
                one[figure.key] / other[figure.key]
                for (of, number, guarantee), one in sorted(pairs.items())
                if (of, guarantee) == (partitions, "exactly_once")
                and (other := pairs.get((of, number, "exactly_once_v2"))) is not None
            ]
            together = ", ".join(f"{ratio:.2f}" for ratio in each)
            cells.append(f"{statistics.median(each):.2f} ({together})" if each else "none")
        lines.append(f"| {partitions} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _odd(report: Mapping[str, Any]) -> list[str]:
    medians = {(one["partitions"], one["guarantee"]): one for one in report["medians"]}
    lines = [
        "## Odd rounds",
        "",
        (
            "Failed rounds, and figures above twice or below half of the median. They count in the medians like the "
            "others."
        ),
        "",
    ]
    found: list[str] = []
    for one in report["rounds"]:
        name = f"- {one['partitions']} partitions, `{one['guarantee']}`, round {one['round'] + 1}: "
        if "failure" in one:
            found.append(f"{name}failed: {one['failure']}")
            continue
        median = medians[one["partitions"], one["guarantee"]]
        odd = [
            f"{figure.column} {figure.written(one[figure.key])} (median {figure.written(median[figure.key])})"
            for figure in FIGURES
            if not median[figure.key] / _ODD <= one[figure.key] <= median[figure.key] * _ODD
        ]
        if odd:
            found.append(name + "; ".join(odd))
    return [*lines, *(found or ["None."])]


def svg(report: Mapping[str, Any]) -> str:
    """`picture` as a text that is the same for the same report."""
    with _mpl.rc_context({"svg.hashsalt": "fenceline", "svg.fonttype": "none"}):
        drawn = io.StringIO()
        picture(report).savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def main() -> None:
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    PICTURE.write_text(svg(report), encoding="utf-8")


if __name__ == "__main__":
    main()
