"""Which cases of a run are drawn, and in which order tests run."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NoReturn

import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster

# The usual parameters of the loop's and the journals' tests; a case meets one of them in a run, by chance.
_VARIANTS = ("protocol", "version")
_BROKERS = frozenset({"kafka", "kafka_cluster3"})
_HEAVY = _BROKERS | {"spark_cluster"}
_UNTIMED_S = 1.0
"""The assumed seconds of a test without a recorded time: new, or quicker than 0.2 s."""
_LONG_S = 90.0
"""A test that takes longer does not stand for its folder."""


def not_drawn(items: Sequence[pytest.Item], rng: random.Random) -> list[pytest.Item]:
    """Draw N cases of each parametrised test marked `faults(keep=N)`, and return the others.

    With `of="a name"` the N are kept of all tests together that are marked with this name. Other cases that start a
    broker keep one of their variants: group protocols, broker versions.
    """
    families: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    keep: dict[str, int] = {}
    for item in items:
        marker = item.get_closest_marker("faults")
        name = item.nodeid.partition("[")[0]
        if marker is not None and "keep" in marker.kwargs:
            family = str(marker.kwargs.get("of", name))
            keep[family] = int(marker.kwargs["keep"])
        elif _BROKERS & fixtures_of(item):
            family = f"{name} {_other_parameters(item)}"
        else:
            continue
        families[family].append(item)
    return [
        case
        for family, cases in sorted(families.items())
        for case in rng.sample(cases, max(0, len(cases) - keep.get(family, 1)))
    ]


def over_budget(
    items: Sequence[pytest.Item], rng: random.Random, *, seconds: Mapping[str, float], budget_s: float
) -> list[pytest.Item]:
    """The tests that are too many for `budget_s` together, drawn at random.

    Those marked `always` stay in any case, and so does one of each folder that takes at most _LONG_S.
    """

    def expected_s(item: pytest.Item) -> float:
        return seconds.get(item.nodeid, _UNTIMED_S)

    drawn = [item for item in items if item.get_closest_marker("always") is None]
    rng.shuffle(drawn)
    stands_for = {item.path.parent: item for item in drawn if expected_s(item) <= _LONG_S}
    first = list(stands_for.values())
    kept = [item for item in items if item.get_closest_marker("always") is not None]
    left_s = budget_s - sum(map(expected_s, (*kept, *first)))
    dropped: list[pytest.Item] = []
    for item in drawn:
        if item in first:
            continue
        if expected_s(item) > left_s:
            dropped.append(item)
        else:
            left_s -= expected_s(item)
    return dropped


class Suite(StrEnum):
    """QUICK: needs neither broker nor Spark nor browser, and may run beside others. CORE: marked so. MORE: the rest."""

    QUICK = "quick"
    CORE = "core"
    MORE = "more"


def suites_of(items: Sequence[pytest.Item], rng: random.Random) -> dict[str, Suite]:
    """The suite of each test, by its id. A parametrised test marked `core` draws one case; the rest is MORE."""
    found = {item.nodeid: Suite.MORE if _is_heavy(item) else Suite.QUICK for item in items}
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("core") is not None:
            cases[item.nodeid.partition("[")[0]].append(item.nodeid)
    return found | {rng.choice(ids): Suite.CORE for _, ids in sorted(cases.items())}


def _is_heavy(item: pytest.Item) -> bool:
    """True if it starts brokers, Spark or a browser, or is marked `slow`; the others share nothing but cores."""
    is_marked = any(item.get_closest_marker(name) is not None for name in ("browser", "faults", "slow", "core"))
    return is_marked or bool(_HEAVY & fixtures_of(item))


def forbid_clusters(patch: pytest.MonkeyPatch) -> None:
    """Let the start of a broker or of Spark fail the test: marks would be forgotten."""

    def refuse(*_: object, **__: object) -> NoReturn:
        pytest.fail("this starts a broker or Spark, so it is not of the quick suite: mark it slow")

    for cluster in (KafkaCluster, SparkCluster):
        patch.setattr(cluster, "start", refuse)


def _other_parameters(item: pytest.Item) -> list[tuple[str, str]]:
    """The parameters that make this case another one than its neighbours, not a variant of them."""
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return [(name, str(value)) for name, value in params.items() if name not in _VARIANTS]


def fixtures_of(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def cost(item: pytest.Item) -> tuple[bool, ...]:
    """Sorts pure tests first, then database, broker, faults, Spark and browser, so that a run fails early."""
    fixtures = fixtures_of(item)
    return (
        item.get_closest_marker("browser") is not None,
        "spark_cluster" in fixtures,
        item.get_closest_marker("faults") is not None,
        bool(fixtures & _BROKERS),
        item.get_closest_marker("slow") is not None,
        "postgres_server_url" in fixtures,
    )
