"""docs/guarantees.md and its picture from bench/results/guarantees.json: `python -m bench.guarantees_page`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.machine import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "guarantees.md"
PICTURE = DOCS / "images" / "guarantees.svg"
_NAMES = {"exactly_once": "exactly_once", "exactly_once_v2": "exactly_once_v2"}
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
_BEGINNING = """# What a producer for each partition costs

`exactly_once` has a transactional producer for each input partition, `exactly_once_v2` one for each task. The second is
what [KIP-447](https://cwiki.apache.org/confluence/display/KAFKA/KIP-447%3A+Producer+scalability+for+exactly+once+semantics)
made possible, and the reason to migrate. `python -m bench.guarantees` measures both on one broker in one run, and
`python -m bench.guarantees_page` makes this page of what it found (`bench/results/guarantees.json` has every round).
"""


def picture(medians: Sequence[Mapping[str, Any]]) -> Any:
    """Each figure over the partitions, a line for each guarantee."""
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
        drawn: Any = Figure(figsize=(10, 2.4 * -(-len(shown) // 2)), layout="constrained")
        for axes, figure in zip(drawn.subplots(-(-len(shown) // 2), 2).flat, shown, strict=True):
            for guarantee, colour in _COLOURS.items():
                found = [one for one in medians if one["guarantee"] == guarantee]
                axes.plot(
                    [one["partitions"] for one in found],
                    [one[figure.key] for one in found],
                    color=colour,
                    marker="o",
                    label=_NAMES[guarantee],
                )
            axes.set_title(figure.plot, loc="left", fontsize=10)
            axes.set_ylim(0, 1.08 * max(one[figure.key] for one in medians))
            axes.set_xticks(sorted({one["partitions"] for one in medians}))
            axes.grid(axis="y", color=_INK, alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        for axes in drawn.axes[-2:]:
            axes.set_xlabel("input partitions")
        drawn.axes[0].legend(frameon=False, labelcolor=_INK)
        return drawn


def page(report: Mapping[str, Any]) -> str:
    on, medians = report["machine"], report["medians"]
    rounds = 1 + max(one["round"] for one in report["rounds"])
    lines = [
        _BEGINNING,
        (
            f"Measured {on['measured_at']} on {on['cores']} cores that the broker, {report['tasks']} tasks and the "
            f"feeder share (load before: {on['load_before']}), medians of {rounds} rounds: records of "
            f"{report['record_bytes']} bytes, identity, commits every 100 ms. *Full speed* takes a topic of "
            f"{report['records']:,} records to its end. Everything else is of a steady load of "
            f"{report['steady_per_second']:,} records/s for {report['steady_seconds']:g} s, the same for both; the "
            "feeder's requests are among the broker's. Threads, connections and memory are those of both workers "
            "together. After every measurement what is committed in the sink was counted and was what was fed."
        ),
        "",
        "![each figure over the number of partitions](images/guarantees.svg)",
        "",
        "| partitions | guarantee | " + " | ".join(figure.column for figure in FIGURES) + " |",
        "|" + "---|" * (len(FIGURES) + 2),
    ]
    lines += [
        f"| {one['partitions']} | `{one['guarantee']}` | "
        + " | ".join(figure.written(one[figure.key]) for figure in FIGURES)
        + " |"
        for one in medians
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    report = json.loads((RESULTS / "guarantees.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    with _mpl.rc_context({"svg.hashsalt": "fenceline", "svg.fonttype": "none"}):
        picture(report["medians"]).savefig(PICTURE, transparent=True, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
