"""docs/measured/benchmark.md and its pictures from bench/results/latest.json: `python -m bench.peers.page`."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.machine import RESULTS
from bench.peers import pictures, prose
from bench.peers.plan import MEETINGS, PAIRS
from bench.peers.ratios import interval
from bench.peers.report import RESULT

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "measured" / "benchmark.md"
PROFILE = RESULTS / "profile.json"
MEMORY = RESULTS / "memory.json"
DATAFRAMES = RESULTS / "dataframes.json"


def page(
    report: Mapping[str, Any],
    *,
    profile: Mapping[str, Any] | None,
    memory: Mapping[str, Any] | None,
    dataframes: Mapping[str, Any] | None,
) -> str:
    """All of it; the sections of results that are missing are left out."""
    lines = [prose.BEGINNING, *_goals(report), *_behind(report), *_unmeasured(report, memory), *_rounds(report)]
    versions = {_versions(one) for one in (*report["meetings"].values(), *report["pairs"].values())}
    is_one = len(versions) == 1
    lines += ["", f"All sections below: {versions.pop()}."] if is_one else []
    for name, meeting in report["meetings"].items():
        lines += ["", f"## {_title(name)}", "", *([] if is_one else [f"{_versions(meeting)}.", ""])]
        lines += _meeting(name, meeting)
    for name, pair in report["pairs"].items():
        lines += ["", f"## {_title(name)}", "", *([] if is_one else [f"{_versions(pair)}.", ""])]
        lines += _pair(name, pair)
    if profile is not None:
        lines += ["", "## Profile", "", *_profile(profile)]
    if memory is not None:
        lines += ["", "## Memory", "", *_memory(memory)]
    if dataframes is not None:
        lines += ["", "## DataFrames", "", *_dataframes(dataframes)]
    lines += ["", *_scaling(report), prose.SETTINGS]
    return "\n".join(lines)


def _title(name: str) -> str:
    return prose.TITLES.get(name, name[0].upper() + name[1:])


def _versions(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found["versions"].items())


def _goals(report: Mapping[str, Any]) -> Iterator[str]:
    yield "| ratio or value | goal | median, or value | 95 % interval | rounds | result |"
    yield "|---|---|---|---|---|---|"
    for row, goal in report["goals"].items():
        found = goal["ratio"]
        extra = f", its interval from {goal['low']:g} on" if goal.get("low") else ""
        extra += f", at most {goal['narrow']:g} wide" if goal.get("narrow") and goal.get("low") else ""
        yield (
            f"| {row} | at least {goal['at_least']:g}{extra} | **{found['median']:.3g}** | {found['low']:.3g} to "
            f"{found['high']:.3g} | {len(found['rounds'])} | {'met' if is_met(goal) else '**not met**'} |"
        )
    for row, value in report.get("values", {}).items():
        is_good = report["ratios"][row] <= value["at_most"]
        yield (
            f"| {row} | at most {value['at_most']:g} | **{report['ratios'][row]:g}** | | | "
            f"{'met' if is_good else '**not met**'} |"
        )


def is_met(goal: Mapping[str, Any]) -> bool:
    found = goal["ratio"]
    if found["median"] < goal["at_least"]:
        return False
    if goal.get("low") is None:
        return True
    return bool(found["low"] >= goal["low"] and found["high"] - found["low"] <= goal.get("narrow", math.inf))


def _behind(report: Mapping[str, Any]) -> Iterator[str]:
    missed = {row: goal for row, goal in report["goals"].items() if not is_met(goal)}
    values = {row: value["at_most"] for row, value in report.get("values", {}).items()}
    too_large = {row: wanted for row, wanted in values.items() if report["ratios"][row] > wanted}
    if missed or too_large:
        yield ""
        yield "## Missed goals"
        yield ""
    for row, goal in missed.items():
        found, wanted = goal["ratio"], goal["at_least"]
        short = (
            f"{(1 - found['median'] / wanted) * 100:.0f} % below it"
            if found["median"] < wanted
            else f"the interval is {found['high'] - found['low']:.3f} wide and begins at {found['low']:.3f}"
        )
        yield f"- {row}: {found['median']:.3g}, goal {wanted:g}: {short}. {prose.WHY.get(row, '')}".rstrip()
    for row, wanted in too_large.items():
        value = report["ratios"][row]
        yield f"- {row}: {value:g}, goal {wanted:g}: {value / wanted:.3g} times. {prose.WHY.get(row, '')}".rstrip()


def _unmeasured(report: Mapping[str, Any], memory: Mapping[str, Any] | None) -> Iterator[str]:
    names = [one.name for one in MEETINGS if one.name not in report["meetings"]]
    names += [one.name for one in PAIRS if one.name not in report["pairs"]]
    names += ["memory"] if memory is None else []
    if names:
        yield ""
        yield f"Not measured yet: {'; '.join(names)}."


def _rounds(report: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Ratios by round"
    yield ""
    yield "| ratio | rounds |"
    yield "|---|---|"
    for row, goal in report["goals"].items():
        yield f"| {row} | {', '.join(f'{one:.3g}' for one in goal['ratio']['rounds'])} |"


def _stamp(found: Mapping[str, Any]) -> str:
    on = found["machine"]
    changed = " with changes" if found["changed_since_commit"] else ""
    return (
        f"Measured {on['measured_at']} at commit `{found['commit'][:10]}`{changed}, on {on['cores']} cores and "
        f"{on['memory_gb']} GB (load before: {on['load_before']})."
    )


def _meeting(name: str, meeting: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{_stamp(meeting)} {meeting['seconds']:g} s each, {meeting['warm_s']:g} s after the first output, "
        f"{meeting['records']:,} records in the topic."
    )
    yield ""
    yield f"![records a second of each system, and of each round](../images/{pictures.slug(name)}.svg)"
    yield ""
    yield (
        "| system | records/s, median | 95 % interval | lowest, highest | cores of the system | of the broker "
        "| its largest process | first output | checked | lost | duplicated |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for system, rounds in meeting["systems"].items():
        if rounds:
            yield _row(system, rounds)


def _row(system: str, rounds: list[dict[str, Any]]) -> str:
    rates = [one["records_per_second"] for one in rounds]
    low, high = interval(rates)
    sums = {key: sum(one[key] for one in rounds) for key in ("outputs", "lost", "duplicated")}
    middle = {
        key: statistics.median(one[key] for one in rounds)
        for key in ("system_cores", "broker_cores", "largest_mb", "began_s")
    }
    return (
        f"| {system} | {statistics.median(rates):,.0f} | {low:,.0f} to {high:,.0f} | {min(rates):,.0f}, "
        f"{max(rates):,.0f} | {middle['system_cores']:.2f} | {middle['broker_cores']:.2f} | "
        f"{middle['largest_mb']:,.0f} MB | {middle['began_s']:.1f} s | {sums['outputs']:,} | "
        f"{sums['lost']:,} | {sums['duplicated']:,} |"
    )


def _pair(name: str, pair: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_stamp(pair)} {pair['records']:,} records in the topic."
    yield ""
    yield f"![the ratio of each round](../images/{pictures.slug(name)}.svg)"
    yield ""
    yield "| side | turns | records/s, median | cores of the tasks | of the broker | checked | lost | duplicated |"
    yield "|---|---|---|---|---|---|---|---|"
    for side, found in pair["sides"].items():
        middle = {key: statistics.median(turn[key] for turn in found["turns"]) for key in found["turns"][0]}
        sums = {key: sum(one[key] for one in found["judged"]) for key in ("records", "lost", "duplicated")}
        yield (
            f"| {side} | {len(found['turns'])} | {middle['records_per_second']:,.0f} | {middle['task_cores']:.2f} | "
            f"{middle['broker_cores']:.2f} | {sums['records']:,} | {sums['lost']:,} | {sums['duplicated']:,} |"
        )


def _profile(profile: Mapping[str, Any]) -> Iterator[str]:
    spied = profile["under_py_spy"]
    yield prose.PROFILE
    yield ""
    yield f"Measured {profile['machine']['measured_at']} by `python -m bench.profile_loop`."
    yield ""
    yield "| loop's thread | share of the wall clock |"
    yield "|---|---|"
    for part, share in sorted(spied["parts"].items(), key=lambda entry: -entry[1]):
        yield f"| {part} | {share * 100:.1f} % |"
    yield ""
    yield "| processor time of | cores |"
    yield "|---|---|"
    for thread, cores in sorted(spied["cores_by_thread"].items(), key=lambda entry: -entry[1])[:6]:
        yield f"| thread `{thread}` | {cores:.2f} |"
    yield f"| the broker, all threads | {spied['broker_cores']:.2f} |"
    found = profile.get("under_perf")
    if found is not None:
        yield ""
        yield "| library of the loop's thread | share of its processor time |"
        yield "|---|---|"
        for library, share in found["by_library_in_the_loop"].items():
            yield f"| `{library.split('-')[0]}` | {share * 100:.1f} % |"


def _memory(memory: Mapping[str, Any]) -> Iterator[str]:
    yield prose.MEMORY
    yield ""
    yield f"Measured {memory['machine']['measured_at']} by `python -m bench.memory`."
    yield ""
    yield f"![memory over time](../images/{pictures.slug('memory')}.svg)"
    yield ""
    yield "| load | time | records/s | largest | median of the first tenth | of the last tenth |"
    yield "|---|---|---|---|---|---|"
    for name, key in (("full speed", "full_speed"), ("slow output", "slow_output")):
        found = memory[key]
        yield (
            f"| {name} | {found['seconds']:g} s | {found['records_per_second']:,} | {found['largest_mb']:g} MB | "
            f"{found['first_tenth_mb']:g} MB | {found['last_tenth_mb']:g} MB |"
        )


def _dataframes(found: Mapping[str, Any]) -> Iterator[str]:
    yield prose.DATAFRAMES.format(batch=found["batch"])
    yield ""
    yield (
        f"Measured {found['machine']['measured_at']} by `python -m bench.dataframes`, {found['records']:,} records in "
        f"the topic. {_versions(found)}."
    )
    yield ""
    yield "| sink | rows/s, median | of each round | trigger with 1,000 rows, median | of each round |"
    yield "|---|---|---|---|---|"
    for system, rounds in found["rounds"].items():
        middle = found["medians"][system]
        rates = ", ".join(f"{one['rows_per_second']:,}" for one in rounds)
        triggers = ", ".join(f"{one['trigger_ms']:,.0f}" for one in rounds)
        yield f"| {system} | {middle['rows_per_second']:,.0f} | {rates} | {middle['trigger_ms']:,.0f} ms | {triggers} |"


def _scaling(report: Mapping[str, Any]) -> Iterator[str]:
    pair = report["pairs"].get("two tasks and one")
    if pair is None:
        return
    one = pair["sides"]["exactly_once_v2"]["turns"]
    rate = statistics.median(turn["records_per_second"] for turn in one)
    task, broker = (statistics.median(turn[key] / turn["records_per_second"] for turn in one) for key in _CORES)
    yield "## Model of a larger machine"
    yield ""
    yield prose.MODEL.format(task=task * 1e6, broker=broker * 1e6, rate=rate)
    yield ""
    yield "| cores | tasks | records/s, by the model |"
    yield "|---|---|---|"
    for cores in (2, 4, 8, 16):
        tasks = max(1, int(cores / ((task + broker) * rate)))
        yield f"| {cores} | {tasks} | {min(tasks * rate, cores / (task + broker)):,.0f} |"
    yield ""


_CORES = ("task_cores", "broker_cores")


def main() -> None:
    report = json.loads(RESULT.read_text("utf-8"))
    profile, memory, dataframes = (
        json.loads(at.read_text("utf-8")) if at.exists() else None for at in (PROFILE, MEMORY, DATAFRAMES)
    )
    PAGE.write_text(page(report, profile=profile, memory=memory, dataframes=dataframes), encoding="utf-8")
    for name, drawn in pictures.all_of(report, memory).items():
        (DOCS / "images" / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
