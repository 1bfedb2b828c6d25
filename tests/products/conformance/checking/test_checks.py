"""Every check on a real broker, which keeps no topic or group of them."""

from __future__ import annotations

from typing import NoReturn

import pytest

from app.products.conformance.checking.bench import Bench, BenchPlace
from app.products.conformance.checking.checks import CHECKS
from app.products.conformance.report import ConformanceVerdict
from tests.products.conformance.checking.conftest import MakeCheck, result_of
from tests.support.waiting import wait_for

# One broker: what it commits is lost with it. Coordinators and leaders have nowhere to go.
OTHERWISE = {"outlives-a-broker": ConformanceVerdict.AT_RISK, "coordinator-moves": ConformanceVerdict.NOT_SHOWN}


@pytest.mark.core
@pytest.mark.parametrize("name", [check.name for check in CHECKS])
def test_a_kafka_broker_keeps_what_it_promises(checked: MakeCheck, name: str) -> None:
    result = checked(name)
    assert result.verdict is OTHERWISE.get(name, ConformanceVerdict.KEPT), result.said


class Interrupted(Bench):
    """Ctrl-C when the topic and two readers are there."""

    def plain_writer(self) -> NoReturn:
        raise KeyboardInterrupt


def test_nothing_is_left_behind_by_an_interrupted_check(place: BenchPlace) -> None:
    def left() -> list[str]:
        return [topic for topic in place.admin.list_topics(timeout=20).topics if topic.startswith(place.prefix)]

    with pytest.raises(KeyboardInterrupt):
        result_of(place, "both-kinds-in-one-partition", bench=Interrupted)
    wait_for(lambda: not left(), 20, lambda: f"the topics gone, there are {left()}")
