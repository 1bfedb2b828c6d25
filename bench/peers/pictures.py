"""The pictures of docs/measured/benchmark.md, for light and dark pages; the same bytes for the same result."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_INK = "#808890"
_OURS, _THEIRS, _LIMIT = "#2b8fd9", "#9aa4ae", "#c8b273"
_mpl: Any = mpl
"""It is typed in part only."""
_LOOK = {"text.color": _INK, "axes.edgecolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "axes.labelcolor": _INK}


def slug(name: str) -> str:
    return "bench-" + "-".join("".join(c if c.isalnum() else " " for c in name).split()).lower()


def all_of(report: Mapping[str, Any], memory: Mapping[str, Any] | None) -> dict[str, str]:
    """SVG by name of the file, without its ending."""
    drawn: dict[str, str] = {}
    with _mpl.rc_context({**_LOOK, "svg.hashsalt": "fenceline", "svg.fonttype": "none"}):
        for name, meeting in report["meetings"].items():
            drawn[slug(name)] = _svg(_systems(meeting))
        for name, pair in report["pairs"].items():
            drawn[slug(name)] = _svg(_ratios(pair))
        if memory is not None:
            drawn[slug("memory")] = _svg(_megabytes(memory))
    return drawn


def _svg(figure: Any) -> str:
    into = io.BytesIO()
    figure.savefig(into, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return into.getvalue().decode()


def _figure(height: float) -> tuple[Any, Any]:
    figure: Any = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure, axes


def _systems(meeting: Mapping[str, Any]) -> Any:
    """A bar for each system, a point for each of its rounds."""
    found = {
        name: [one["records_per_second"] / 1000 for one in rounds]
        for name, rounds in meeting["systems"].items()
        if rounds
    }
    figure, axes = _figure(0.6 + 0.38 * len(found))
    for at, (name, rates) in enumerate(found.items()):
        colour = _OURS if name.startswith("fenceline") else _LIMIT if name == "limit" else _THEIRS
        axes.barh(at, statistics.median(rates), color=colour, alpha=0.75)
        axes.plot(rates, [at] * len(rates), "|", color=_INK, markersize=9)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("thousand records a second")
    axes.grid(axis="x", color=_INK, alpha=0.25)
    return figure


def _ratios(pair: Mapping[str, Any]) -> Any:
    """A point for each round, and the median."""
    ours, theirs = ([turn["records_per_second"] for turn in side["turns"]] for side in pair["sides"].values())
    names = list(pair["sides"])
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    figure, axes = _figure(2.2)
    axes.axhline(statistics.median(ratios), color=_OURS, alpha=0.75)
    axes.plot(range(1, len(ratios) + 1), ratios, "o", color=_OURS, markersize=4)
    axes.set_xlabel("round")
    axes.set_ylabel(f"{names[0]}\nto {names[1]}")
    axes.grid(axis="y", color=_INK, alpha=0.25)
    return figure


def _megabytes(memory: Mapping[str, Any]) -> Any:
    figure, axes = _figure(2.6)
    for key, name, colour in (("full_speed", "full speed", _OURS), ("slow_output", "slow output", _LIMIT)):
        found = memory[key]
        each_s = found["seconds"] / len(found["megabytes"])
        axes.plot([at * each_s for at in range(len(found["megabytes"]))], found["megabytes"], color=colour, label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    axes.legend(frameon=False)
    axes.grid(axis="y", color=_INK, alpha=0.25)
    return figure
