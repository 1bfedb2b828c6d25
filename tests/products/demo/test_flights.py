"""The demo's input from the package."""

import dataclasses
import json

import pytest

from app.products.demo.flights import Flight, read_flights


@pytest.fixture(scope="module")
def year() -> list[Flight]:
    return read_flights()


def test_the_whole_year_is_read_and_every_flight_has_an_id_of_its_own(year: list[Flight]) -> None:
    assert len(year) == 336_776
    assert len({flight.flight_id for flight in year}) == len(year)


def test_a_limit_reads_the_first_rows_in_order(year: list[Flight]) -> None:
    assert read_flights(limit=250) == year[:250]


def test_a_second_lap_has_other_ids_and_the_same_flights_a_year_later(year: list[Flight]) -> None:
    first, second = (json.loads(year[0].value(lap=lap)) for lap in (1, 2))
    assert first.pop("flight_id") != second.pop("flight_id")
    assert first.pop("scheduled_departure").replace("2013", "2014") == second.pop("scheduled_departure")
    assert first == second


def test_departures_are_in_order(year: list[Flight]) -> None:
    departures = [flight.scheduled_departure for flight in year]
    assert departures == sorted(departures)


def test_a_cancelled_flight_has_no_delay_rather_than_a_made_up_one(year: list[Flight]) -> None:
    cancelled = next(flight for flight in year if flight.arrival_delay_min is None)
    assert "arrival_delay_min" not in json.loads(cancelled.value())
    assert not cancelled.is_late


@pytest.mark.parametrize(("delay", "is_late"), [(14, False), (15, True), (-20, False), (None, False)])
def test_late_means_a_quarter_of_an_hour_or_more(year: list[Flight], delay: int | None, is_late: bool) -> None:
    flight = year[0]
    assert dataclasses.replace(flight, arrival_delay_min=delay).is_late is is_late
