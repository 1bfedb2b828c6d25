"""docs/measured/waiting.md from bench/results/latency.json and start.json: `python -m bench.waiting_page`."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from bench.latency.__main__ import INTERVALS_MS, NAMES, RATES, key
from bench.machine import RESULTS
from bench.start.moments import DRAIN, START, Part

DOCS = Path(__file__).parent.parent / "docs"
LATENCY, STARTS = RESULTS / "latency.json", RESULTS / "start.json"
PAGE = DOCS / "measured" / "waiting.md"
LATENCY_PICTURE, START_PICTURE = DOCS / "images" / "latency.svg", DOCS / "images" / "start.svg"
_INK = "#808890"
"""Readable on a light page and on a dark one; the pictures themselves have no ground."""
_COLOURS = {"spark": "#2b8fd9", "bare": "#7fbce8", "streams": "#d9822b"}
_STEPS = (
    *("#2b8fd9", "#d9822b", "#5aa86a", "#b06ab3", "#c8a23c", "#6c7fd8"),
    *("#38a3a5", "#c75c5c", "#8a6d3b", "#7a8794", "#a3b84a"),
)
_SHOWN = 0.03
"""Parts that are less of the whole have no number in the picture."""
_mpl: Any = mpl
"""It is typed in part only."""
_BEGINNING = """# Latency, start and drain

For operators: the latency of a record, and the duration of a start and of a drain. Recovery times after the
loss of an instance are in [standstill.md](standstill.md).

`python -m bench.waiting_page` makes this page of the results of `python -m bench.latency` and `python -m bench.start`.
"""


def page(latency: Mapping[str, Any], starts: Mapping[str, Any]) -> str:
    """The page, of what the two benchmarks wrote."""
    lines = [_BEGINNING, *_of_latency(latency), *_of_start(starts), *_of_drain(starts)]
    return "\n".join(lines) + "\n"


def _of_latency(report: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Latency of a record",
        "",
        (
            f"{_told(report)} One broker, four partitions, records of 100 bytes, identity, exactly once, one task or "
            "thread. A record's latency is the time from its *due* moment to its receipt by a consumer at "
            f"`read_committed`, in another process. Medians over {report['rounds_each']} rounds of "
            f"{report['seconds']:g} s, each after {report['warm_s']:g} s of the same load; the systems take turns, "
            "and the other two are idle. A missing or duplicated record ends the benchmark. *Sender late* is the "
            "sender's own delay, 99th percentile, and part of every latency. Above a millisecond, the machine is what "
            "was measured."
        ),
        "",
        "![the part of the records that is readable by then, at 1,000 records a second](../images/latency.svg)",
        "",
        "| records/s | commit interval | system | p50 | p99 | highest | measured | sender late |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rate in RATES:
        for interval_ms in INTERVALS_MS:
            for name, system in NAMES.items():
                one = report["medians"].get(key(name, rate, interval_ms))
                if one is not None:
                    lines.append(
                        f"| {rate:,} | {interval_ms} ms | {system} | {one['p50_ms']:,.1f} ms | {one['p99_ms']:,.1f} ms "
                        f"| {one['max_ms']:,.1f} ms | {one['records']:,} | {one['sender_late_ms_p99']:,.1f} ms |"
                    )
    return [*lines, ""]


def _of_start(report: Mapping[str, Any]) -> list[str]:
    return [
        "## Start to the first record",
        "",
        (
            f"{_told(report)} A server with its own Postgres, a broker, a standalone Spark cluster, one instance of "
            f"one task. The source has records. There are {len(report['rounds'])} rounds, the first without caches. "
            "Times are from the instance's rows, the task's events, the logs of driver and executor, and the starts "
            "of processes. The executor's JVM starts beside the lease's claim."
        ),
        "",
        "![the parts of start and drain](../images/start.svg)",
        "",
        *_parts(report["start"], START),
    ]


def _of_drain(report: Mapping[str, Any]) -> list[str]:
    return [
        "## Drain to stopped",
        "",
        *_parts(report["drain"], DRAIN)[:-1],
    ]


def _parts(summary: Mapping[str, Any], parts: tuple[Part, ...]) -> list[str]:
    rows = [(part.what, summary["parts_s"][part.until]) for part in parts]
    return [
        "| part | median | lowest | highest |",
        "|---|---|---|---|",
        *(f"| {what} | {_seconds(one)} |" for what, one in rows),
        f"| **total** | {_seconds(summary['all_s'])} |",
        "",
    ]


def _seconds(one: Mapping[str, float]) -> str:
    return " | ".join(f"{one[name]:.2f} s" for name in ("median", "lowest", "highest"))


def _told(report: Mapping[str, Any]) -> str:
    on = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    return f"Measured {on['measured_at']} on {on['cores']} shared cores, load before {on['load_before']}; {versions}."


def latency_picture(report: Mapping[str, Any]) -> Any:
    """The part of the records that is readable after so long, by system, for each commit interval."""
    with _mpl.rc_context(_STYLE):
        drawn: Any = Figure(figsize=(10, 3.4), layout="constrained")
        for axes, interval_ms in zip(drawn.subplots(1, len(INTERVALS_MS)), INTERVALS_MS, strict=True):
            for name, system in NAMES.items():
                one = report["medians"].get(key(name, RATES[0], interval_ms))
                if one is not None:
                    parts = [100 * part for part in report["quantiles"]]
                    axes.plot(one["quantiles_ms"], parts, color=_COLOURS[name], label=system)
            axes.axhline(99, color=_INK, alpha=0.4, linewidth=0.8)
            axes.set_title(f"commits each {interval_ms} ms", loc="left", fontsize=10)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.xaxis.set_minor_formatter("")
            axes.set_xlabel("milliseconds from due to readable")
            axes.set_ylabel("% of the records")
            axes.set_ylim(0, 101)
            axes.grid(color=_INK, alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        drawn.legend(
            *drawn.axes[0].get_legend_handles_labels(),
            loc="outside upper left",
            ncols=3,
            frameon=False,
            labelcolor=_INK,
        )
        return drawn


def start_picture(report: Mapping[str, Any]) -> Any:
    """A bar of parts each for the medians of start and drain."""
    with _mpl.rc_context(_STYLE):
        drawn: Any = Figure(figsize=(10, 5.2), layout="constrained")
        for axes, of, parts in zip(drawn.subplots(2, 1), ("start", "drain"), (START, DRAIN), strict=True):
            left, all_s = 0.0, sum(report[of]["parts_s"][part.until]["median"] for part in parts)
            for number, part in enumerate(parts):
                took_s = report[of]["parts_s"][part.until]["median"]
                axes.barh(0, took_s, left=left, color=_STEPS[number % len(_STEPS)], alpha=0.8, label=part.what)
                if took_s >= _SHOWN * all_s:
                    axes.text(left + took_s / 2, 0, f"{took_s:.2g}", ha="center", va="center", color="white")
                left += took_s
            axes.set_title(f"{of}: seconds, median of each part", loc="left", fontsize=10)
            axes.set_yticks([])
            axes.set_xlim(0, all_s)
            axes.grid(axis="x", color=_INK, alpha=0.25)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.legend(
                loc="upper center",
                bbox_to_anchor=(0.5, -0.18),
                ncols=3,
                frameon=False,
                labelcolor=_INK,
                fontsize=8,
            )
        return drawn


_STYLE = {
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


def svg(picture: Any) -> str:
    """A picture as a text that is the same for the same report."""
    with _mpl.rc_context(_STYLE):
        drawn = io.StringIO()
        picture.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def main() -> None:
    latency, starts = (json.loads(result.read_text(encoding="utf-8")) for result in (LATENCY, STARTS))
    PAGE.write_text(page(latency, starts), encoding="utf-8")
    LATENCY_PICTURE.write_text(svg(latency_picture(latency)), encoding="utf-8")
    START_PICTURE.write_text(svg(start_picture(starts)), encoding="utf-8")


if __name__ == "__main__":
    main()
