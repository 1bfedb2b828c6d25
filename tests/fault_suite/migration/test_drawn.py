"""Which faults a seed draws: in each bounce an instance, a broker and the server."""

from __future__ import annotations

from collections import defaultdict

import pytest

from app.products.migrations.migration import Stage
from tests.fault_suite.migration.drawn import BOUNCES, KILLS, Meant, drawn
from tests.fault_suite.migration.stage import INSTANCES
from tests.fault_suite.plan import Kind


@pytest.mark.parametrize("seed", range(20))
def test_each_bounce_meets_an_instance_a_broker_and_the_server_one_while_each_instance_restarts(seed: int) -> None:
    found = list(drawn(seed))
    assert [one.fault.number for one in found] == list(range(len(found)))
    of_stage = defaultdict[Stage, list[Meant]](list)
    for one in found:
        of_stage[one.stage].append(one)
    assert list(of_stage) == [stage for stages in BOUNCES.values() for stage in stages]
    killed: list[Kind] = []
    for those in of_stage.values():
        assert [one.bounce for one in those] == list(range(INSTANCES))
        kinds = {one.fault.kind for one in those}
        assert {Kind.BROKER_KILLED, Kind.SERVER_KILLED} < kinds
        killed += kinds.intersection(KILLS)
    assert sorted(killed) == sorted(KILLS), "each of them once"


def test_a_seed_draws_the_same_again_and_another_one_something_else() -> None:
    assert list(drawn(1)) == list(drawn(1))
    assert list(drawn(1)) != list(drawn(2))
