"""docs/measured/growth.md and its pictures from bench/results/growth.json: `python -m bench.growth.page`."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.growth.explained import EXPLAINED, FOUND
from bench.machine import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
RESULT = RESULTS / "growth.json"
PAGE = DOCS / "measured" / "growth.md"
PICTURES = DOCS / "images"
_INK = "#808890"
"""Readable on a light page and on a dark one; the picture itself has no ground."""
_COLOUR = "#2b8fd9"
_mpl: Any = mpl
"""It is typed in part only."""
_SVG = {"svg.hashsalt": "fenceline", "svg.fonttype": "none"}

Step = Mapping[str, Any]


class Shown(NamedTuple):
    """A figure of a step: its column, its plot (None: in the table alone), how it is written, whether it is a cost."""

    key: str
    column: str
    plot: str | None
    written: Callable[[float], str]
    is_cost: bool = False


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


def _hundredths(value: float) -> str:
    return f"{value:,.2f}"


FIGURES = (
    Shown("server_cores", "cores of the server", "cores of the server", _hundredths, is_cost=True),
    Shown("postgres_cores", "cores of Postgres", "cores of Postgres", _hundredths, is_cost=True),
    Shown("memory_mb", "memory of the server, MB", "memory of the server, MB", _whole, is_cost=True),
    Shown("statements_per_second", "statements/s", "statements a second", _whole, is_cost=True),
    Shown("heartbeats_per_second", "heartbeats/s", None, _tenths),
    Shown("heartbeat_ms_p50", "heartbeat, median, ms", None, _tenths),
    Shown("heartbeat_ms_p99", "heartbeat, p99, ms", None, _tenths),
    Shown("refused", "refused", None, _whole),
    Shown("refused_at_first", "refused at first", None, _whole),
    Shown("heard_after_s", "all reported after, s", None, _tenths),
    Shown("load", "load", None, _tenths),
)
COSTS = tuple(figure for figure in FIGURES if figure.is_cost)
GROWTHS = {
    "pipelines": "Pipelines with one instance each",
    "tasks": "Tasks of one pipeline",
    "ids": "Transactional ids of a cluster",
}
_BEGINNING = """# Server costs by size

For operators who size a server: its cost by number of pipelines, tasks and transactional ids, and with time.
`python -m bench.growth` measures each with its own server process, a real Postgres and a real broker;
`python -m bench.growth.page` makes this page of `bench/results/growth.json`.

The workers are **simulated**: heartbeats (with four partitions each), HTTP client, claims of drivers and offset
reports are the product's code at its intervals. There is no loop, Spark, consumer or producer. Pipelines are created
and started over REST. Instead of a Spark submission, an idle process starts, which the reconciler follows like a
driver.

| column | meaning |
|---|---|
| cores | processor time divided by elapsed time, of the server's process or of all Postgres processes |
| statements | of the server's database, by `pg_stat_statements`, with BEGIN and COMMIT |
| heartbeat | time of an answer at the worker, which shares the cores |
| refused | heartbeats without an answer in time, or not accepted as a current attempt's |
| refused at first | the same before the server had stored one heartbeat of each new task of the step |
| all reported after | time until then; the other figures begin some seconds later |
| load | the machine's at the end of the step; the part far above the cores is not of this benchmark |
"""


def sublinear(steps: Sequence[Step], key: str) -> tuple[float, float] | None:
    """(times the size, times the cost) from the smallest to the largest step, each less the base, the first step.

    None where the smallest adds nothing that can be measured.
    """
    base, smallest, largest = steps[0], steps[1], steps[-1]
    grown = largest["size"] / smallest["size"]
    least, most = smallest[key] - base[key], largest[key] - base[key]
    return (grown, most / least) if least > 0 and most > 0 else None


def exponent(steps: Sequence[Step], key: str) -> float | None:
    """The growth of the cost above the base with size, by least squares over logarithms; None below three points."""
    base = steps[0][key]
    points = [(math.log(one["size"]), math.log(one[key] - base)) for one in steps[1:] if one[key] > base]
    if len(points) < 3:
        return None
    mean_x, mean_y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def answered(steps: Sequence[Step]) -> list[Step]:
    """The sizes before the first at which the server kept not all heartbeats: what is left undone costs nothing."""
    return list(itertools.takewhile(lambda one: not one["refused"] and not one["unheard"], steps))


def page(report: Mapping[str, Any]) -> str:
    """The page, of what `bench.growth` wrote."""
    lines = [_BEGINNING]
    for name, heading in GROWTHS.items():
        if name in report:
            lines += _growth(name, heading, report[name])
    if "retention" in report:
        lines += _retention(report["retention"])
    return "\n".join([*lines, "## Findings", "", FOUND])


def _growth(name: str, heading: str, growth: Mapping[str, Any]) -> list[str]:
    on, steps = growth["machine"], growth["steps"]
    shown = [figure for figure in FIGURES if any(one[figure.key] is not None for one in steps)]
    lines = [
        f"## {heading}",
        "",
        (
            f"Measured {on['measured_at']} on {on['cores']} cores, load before {on['load_before']}; "
            f"{growth['measured_s']:g} s at each size. {EXPLAINED[name]}"
        ),
        "",
        f"![each figure over the size](../images/growth-{name}.svg)",
        "",
        f"| {name} | " + " | ".join(figure.column for figure in shown) + " |",
        "|" + "---|" * (len(shown) + 1),
    ]
    for one in steps:
        cells = ("" if one[figure.key] is None else figure.written(one[figure.key]) for figure in shown)
        lines.append(f"| {one['size']:,} | " + " | ".join(cells) + " |")
    return [*lines, "", *_ratios(name, steps), *_heaviest(name, steps[-1])]


def _ratios(name: str, every: Sequence[Step]) -> list[str]:
    steps = answered(every)
    beyond = [f"{one['size']:,}" for one in every[len(steps) :]]
    lines: list[str] = []
    if beyond:
        lines += [f"Not judged, since heartbeats were refused there or before: {', '.join(beyond)}.", ""]
    if len(steps) < 3:
        return [*lines, "The remaining sizes are too few for a growth.", ""]
    base, smallest, largest = steps[0], steps[1], steps[-1]
    lines += [
        (
            f"From {smallest['size']:,} to {largest['size']:,} {name}, less the cost of {base['size']:,}. The "
            "exponent is that of the size, by least squares: 1 is linear, below 1 is sublinear."
        ),
        "",
        "| cost | size, times | cost, times | each of the largest | exponent |",
        "|---|---|---|---|---|",
    ]
    for figure in COSTS:
        ratio, power = sublinear(steps, figure.key), exponent(steps, figure.key)
        each = (largest[figure.key] - base[figure.key]) / (largest["size"] - base["size"])
        cells = (
            figure.column,
            f"{largest['size'] / smallest['size']:,.0f}",
            "unknown: the smallest adds nothing" if ratio is None else f"{ratio[1]:,.1f}",
            f"{each:.4g}",
            "" if power is None else f"{power:.2f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _heaviest(name: str, step: Step) -> list[str]:
    lines = [
        f"Statements that took the most Postgres time with {step['size']:,} {name}, with waits for locks:",
        "",
        "| calls a second | Postgres seconds a second | beginning of the statement |",
        "|---|---|---|",
    ]
    for one in step["heaviest"]:
        text = one["text"].replace("|", "\\|").replace("`", "'")
        lines.append(f"| {one['per_second']:,.1f} | {one['cores']:.3f} | `{text}` |")
    return [*lines, ""]


def _retention(found: Mapping[str, Any]) -> list[str]:
    on = found["machine"]
    lines = [
        "## Retention",
        "",
        (
            f"Measured {on['measured_at']}, load before {on['load_before']}. Rows of many days are written as the "
            "server writes them, and the server's retention removes them. *Most left* is the largest number of rows "
            "after a turn; the bound follows from what is kept. One run, one cluster, and the events of two hundred "
            "tasks. Test: `tests/core/runs/test_retention.py`."
        ),
        "",
        "| table | kept | days | written | most left | bound | slowest turn, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{one['table']}` | {one['kept']} | {one['days']} | {one['written']:,} | {one['most_left']:,} | "
        f"{one['most']:,} | {one['slowest_turn_ms']:,} |"
        for one in found["tables"]
    ]
    return [*lines, ""]


def picture(growth: Mapping[str, Any]) -> Any:
    """Each cost over the size, and a thin line for what would be linear from the base to the largest."""
    steps = growth["steps"]
    sizes = [one["size"] for one in steps]
    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    with _mpl.rc_context({**_SVG, "font.size": 9, **dict.fromkeys(ink, _INK)}):
        plots = [figure for figure in FIGURES if figure.plot is not None]
        drawn: Any = Figure(figsize=(10, 4.6), layout="constrained")
        for axes, figure in zip(drawn.subplots(2, 2).flat, plots, strict=True):
            values = [one[figure.key] for one in steps]
            axes.plot([sizes[0], sizes[-1]], [values[0], values[-1]], color=_INK, linewidth=0.8, linestyle=":")
            axes.plot(sizes, values, color=_COLOUR, marker="o", markersize=4)
            axes.set_title(figure.plot, loc="left", fontsize=10)
            axes.set_ylim(0, 1.08 * max(values))
            axes.yaxis.set_major_formatter("{x:,.10g}")
            axes.xaxis.set_major_formatter("{x:,.10g}")
            axes.grid(axis="y", color=_INK, alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        return drawn


def svg(growth: Mapping[str, Any]) -> str:
    """`picture` as a text that is the same for the same result."""
    with _mpl.rc_context(_SVG):
        drawn = io.StringIO()
        picture(growth).savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def main() -> None:
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    for name in GROWTHS:
        if name in report:
            (PICTURES / f"growth-{name}.svg").write_text(svg(report[name]), encoding="utf-8")


if __name__ == "__main__":
    main()
