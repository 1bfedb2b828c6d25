"""A zombie from any stage of a migration duplicates nothing when it wakes up; in the switch in one step it does."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.fault_suite.freeze_points import Point
from tests.zombies import results
from tests.zombies.cases import MUST_DOUBLE, Case, Direction, Move, every_case, must_be_exact, must_double
from tests.zombies.playing import Found, contradiction, play

_AT_ONCE = 4


@pytest.mark.slow
def test_zombies_of_a_guided_migration_duplicate_nothing_and_one_of_the_switch_in_one_step_does(
    kafka: KafkaCluster, tmp_path: Path, rng: random.Random
) -> None:
    """Each freeze point forward and back, the rest of each case drawn; they mostly wait, so several at once."""
    cases = [rng.choice([case for case in every_case() if must_double(case)])]
    for direction in (Direction.FORWARD, Direction.BACK):
        for point in Point:
            fitting = [case for case in every_case() if case.move.direction is direction and case.point is point]
            cases.append(rng.choice(fitting))

    def played(numbered: tuple[int, Case]) -> str | None:
        number, case = numbered
        found = play(case, bootstrap_servers=kafka.bootstrap_servers, folder=tmp_path / str(number))
        return contradiction(case, found)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        assert [said for said in pool.map(played, enumerate(cases)) if said is not None] == []


def test_the_page_has_the_results_of_every_case() -> None:
    found = results.read()
    assert results.missing(found) == []
    assert results.PAGE.read_text("utf-8") == results.page(results.kept()), "make it again: make zombies"
    assert [said for case, one in found.items() if (said := contradiction(case, one)) is not None] == []


def test_every_stage_is_exact_or_a_negative_control() -> None:
    cases = list(every_case())
    assert {case.move for case in cases} == set(Move)
    assert {(case.point, case.wake) for case in cases if must_double(case)} == MUST_DOUBLE
    assert not any(must_double(case) and must_be_exact(case) for case in cases)


def test_a_case_that_is_not_as_it_must_be_is_a_contradiction() -> None:
    exact = Found(expected=9, lost=0, duplicated=0, unexpected=0, out_of_order=0, told=None)
    doubled = msgspec.structs.replace(exact, duplicated=3)
    for case in every_case():
        assert (contradiction(case, exact) is None) is not must_double(case)
        assert (contradiction(case, doubled) is None) is not must_be_exact(case)
    guided = next(case for case in every_case() if must_be_exact(case))
    for wrong in ("lost", "unexpected", "out_of_order"):
        assert contradiction(guided, msgspec.structs.replace(exact, **{wrong: 1})) is not None
