"""What the proof must know of a pipeline: which output a flight must become, and which outputs a record brings."""

from typing import Protocol

import orjson

from app.products.demo.feed import FedFlight


class WrongOutputError(Exception):
    """A record of the sink topic that no pipeline of the demo should have written; the message says what is wrong."""


class Outputs(Protocol):
    """Outputs are texts, which are equal if and only if the outputs are."""

    def expected(self, fed: FedFlight) -> str | None:
        """What a flight must become; None: nothing."""
        ...

    def found(self, value: bytes) -> list[str]:
        """The outputs that a committed record of the sink topic brings to its readers.

        Raises:
            WrongOutputError: there are none, or not those that it says.
        """
        ...


PROJECTED = ("flight_id", "carrier", "origin", "destination", "arrival_delay_min")
"""The fields that the pipeline `delayed-flights` keeps, in their order."""


class LateFlights:
    """One record for each flight that was late, with the projected fields."""

    def expected(self, fed: FedFlight) -> str | None:
        lap, flight = fed
        if not flight.is_late:
            return None
        fields = [flight.id_in(lap), flight.carrier, flight.origin, flight.destination, flight.arrival_delay_min]
        return orjson.dumps([*fields, len(PROJECTED)]).decode()

    def found(self, value: bytes) -> list[str]:
        try:
            record = orjson.loads(value)
            flight_id = str(record["flight_id"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise WrongOutputError(f"not a flight: {value!r}") from None
        # What a record says beyond its id is remembered with it, to be compared with the CSV.
        return [orjson.dumps([flight_id, *(record.get(name) for name in PROJECTED[1:]), len(record)]).decode()]
