"""Two ways of the loop against each other, in turns of seconds: what a slow minute of the machine hides from runs.

Both have their tasks in processes of their own on one source, and live at the same time; one is paused while the other
runs. A turn begins when what runs has come up to speed, and its rate is of whole commits: from the first to the last
growth of its sink's last stable offset within the turn. Who begins a round changes from round to round. When either
has come near the end of the source, both are drained and judged, and begin again as new groups with new sinks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from app.core.pipelines.pipeline import PipelineDefinition, SparkSettings
from bench.peers.bare import BareTasks
from bench.peers.plan import Pair, Side
from bench.peers.ratios import ratio
from bench.peers.turns import Running, Turn
from bench.peers.work import Judged, Topics, judge

_ROUNDS_OF_A_HEAT = 12


class Scene(NamedTuple):
    """The stage of pairs, and the receiver of their progress."""

    topics: Topics
    broker_pid: int
    say: Callable[[str], None]


class Held(NamedTuple):
    """The result of one side: every turn, and the content of each of its sinks."""

    turns: list[Turn]
    judged: list[Judged]


def hold_pair(scene: Scene, pair: Pair) -> dict[str, Held]:
    """Every turn of both sides, by name.

    Raises:
        AssertionError: what came out is not what a side promises.
    """
    sides = (pair.ours, pair.theirs)
    sources: dict[int, str] = {}
    for side in sides:
        if side.work.headers not in sources:
            name = scene.topics.create(f"paired-source-{_slug(pair)}-{side.work.headers}")
            scene.topics.fill(name, side.work, pair.records)
            sources[side.work.headers] = name
    scene.say(f"{pair.name}: {pair.records:,} records written")
    held = {side.name: Held([], []) for side in sides}
    heat = 0
    while not _is_enough(pair, held):
        before = len(held[pair.ours.name].turns)
        _hold_heat(scene, pair, heat, sources, held)
        assert len(held[pair.ours.name].turns) > before, "the source was read to its end within a turn"
        heat += 1
    for topic in sources.values():
        scene.topics.delete(topic)
    return held


def _hold_heat(scene: Scene, pair: Pair, heat: int, sources: dict[int, str], held: dict[str, Held]) -> None:
    with ExitStack() as stack:
        running: dict[Side, Running] = {}
        for number, side in enumerate((pair.ours, pair.theirs)):
            sink = scene.topics.create(f"paired-{_slug(pair)}-{heat}-{number}")
            tasks = tasks_of(side, scene.topics, sources[side.work.headers], sink)
            stack.callback(tasks.kill)
            one = Running(scene.topics, tasks, sink, scene.broker_pid)
            one.begin()
            running[side] = one
        for number in range(_ROUNDS_OF_A_HEAT):
            found = {side: running[side].turn(pair.records) for side in list(running)[:: -1 if number % 2 else 1]}
            if None in found.values() or _is_enough(pair, held):
                break
            for side, turn in found.items():
                if turn is not None:
                    held[side.name].turns.append(turn)
            rates = [held[side.name].turns[-1].records_per_second for side in running]
            scene.say(f"{pair.name}, round {len(held[pair.ours.name].turns)}: {rates[0] / rates[1]:.3f}")
        for one in running.values():
            one.subject.drain()
    for side, one in running.items():
        judged = judge(scene.topics, one.sink, side.work, records=pair.records)
        assert not judged.lost, f"{side.name}: {judged}"
        assert not (judged.duplicated and side.is_exact), f"{side.name}: {judged}"
        held[side.name].judged.append(judged)
        scene.topics.delete(one.sink)


def tasks_of(side: Side, topics: Topics, source: str, sink: str) -> BareTasks:
    """Not started yet."""
    return BareTasks(
        topics.bootstrap_servers,
        PipelineDefinition(
            cluster="bench",
            source_topics=(source,),
            group_id=sink,
            sink_topic=sink,
            processing_guarantee=side.guarantee,
            tasks_per_instance=side.work.tasks,
            commit_interval_ms=side.work.commit_interval_ms,
            spark=SparkSettings(master="local"),
        ),
    )


def _is_enough(pair: Pair, held: dict[str, Held]) -> bool:
    ours, theirs = ([turn.records_per_second for turn in held[side.name].turns] for side in (pair.ours, pair.theirs))
    if len(ours) < pair.rounds[0]:
        return False
    found = ratio(ours, theirs)
    return len(ours) >= pair.rounds[1] or found.high - found.low <= pair.narrow


def as_result(pair: Pair, held: dict[str, Held]) -> dict[str, Any]:
    """For the report."""
    return {
        "records": pair.records,
        "sides": {
            name: {"turns": its.turns, "judged": [one._asdict() for one in its.judged]} for name, its in held.items()
        },
    }


def _slug(pair: Pair) -> str:
    return pair.name.replace(" ", "-")
