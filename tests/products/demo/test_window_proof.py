"""The check of the demo's windows detects a lost, a duplicated and a wrong window."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest

from app.core.pipelines.definition import decode_definition
from app.core.pipelines.pipeline import PipelineDefinition
from app.products.demo import window_pipeline
from app.products.demo.feed import FedFlight
from app.products.demo.flights import Flight, read_flights
from app.products.demo.outputs import WrongOutputError
from app.products.demo.window_proof import Windows, judge


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    found = read_flights(limit=2_000)
    assert any(flight.arrival_delay_min is None for flight in found)
    return found


def fed(flights: Sequence[Flight]) -> list[FedFlight]:
    return [(1, flight) for flight in flights]


def records(flights: Sequence[Flight], *, until: str = "2013-01-02T12:00") -> list[dict[str, Any]]:
    """The windows that begin before `until`, as the pipeline writes them."""
    groups: defaultdict[tuple[str, str], list[Flight]] = defaultdict(list)
    for flight in flights:
        groups[flight.scheduled_departure[:13], flight.carrier].append(flight)
    found: list[dict[str, Any]] = []
    for (hour, carrier), members in groups.items():
        delays = [one.arrival_delay_min for one in members if one.arrival_delay_min is not None]
        record = {"carrier": carrier, "hour": f"{hour}:00", "flights": len(members), "arrived": len(delays)}
        # Spark's JSON has no nulls.
        found.append({**record, "mean_delay_min": fmean(delays)} if delays else record)
    return [record for record in found if record["hour"] < until]


def seen(written: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(window for record in written for window in Windows().found(orjson.dumps(record)))


def test_closed_windows_that_are_all_there_once_are_right(flights: list[Flight]) -> None:
    written = records(flights)
    verdict = judge(seen(written), [], fed(flights))
    assert (verdict.windows, verdict.expected, verdict.all_wrong) == (len(written), len(written), 0)
    assert 100 < len(written) < len(records(flights, until="2014")), "some windows are open"


@pytest.mark.parametrize(
    ("change", "lost", "duplicated", "wrong"),
    [("lose", 1, 0, 0), ("duplicate", 0, 1, 0), ("alter", 1, 0, 1), ("add", 0, 0, 1)],
)
def test_one_window_that_is_not_right_is_found(
    flights: list[Flight], change: str, lost: int, duplicated: int, wrong: int
) -> None:
    written = records(flights)
    some = written[len(written) // 3]
    if change == "lose":
        written.remove(some)
    elif change == "duplicate":
        written.append(some)
    elif change == "alter":
        written[written.index(some)] = {**some, "flights": some["flights"] + 1}
    else:
        written.append({**some, "carrier": "XX"})
    verdict = judge(seen(written), [], fed(flights))
    assert (verdict.lost, verdict.duplicated, verdict.wrong_count) == (lost, duplicated, wrong)
    assert verdict.all_wrong


def test_no_window_at_all_is_no_proof(flights: list[Flight]) -> None:
    assert judge(Counter(), [], fed(flights)).expected == 0


def test_a_window_of_the_next_lap_is_a_year_later(flights: list[Flight]) -> None:
    written = [{**record, "hour": record["hour"].replace("2013", "2014")} for record in records(flights)]
    assert judge(seen(written), [], [(2, flight) for flight in flights]).all_wrong == 0
    assert judge(seen(written), [], fed(flights)).all_wrong > 0


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"hour": "2013-01-01T05:00"}'])
def test_a_record_that_is_no_window_is_wrong(flights: list[Flight], value: bytes) -> None:
    with pytest.raises(WrongOutputError, match="not a window"):
        Windows().found(value)
    assert judge(Counter(), ["not a window"], fed(flights)).all_wrong == 1


def test_the_definition_is_one_of_a_dataframe(tmp_path: Path) -> None:
    given = window_pipeline.definition(cluster="demo", checkpoint=tmp_path)
    definition = decode_definition(given)
    assert isinstance(definition, PipelineDefinition), definition
    assert definition.dataframe is not None
