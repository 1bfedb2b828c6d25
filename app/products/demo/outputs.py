"""The expected outputs of a pipeline, and the reading of its actual outputs."""

from typing import Protocol

import orjson

from app.products.demo.feed import FedFlight


class WrongOutputError(Exception):
    """A record of the sink topic that no pipeline of the demo should have written; with the reason."""


class Outputs(Protocol):
    """Outputs are texts, which are equal if and only if the outputs are."""

    def expected(self, fed: FedFlight) -> str | None:
        """Return the expected output of a flight; None: no output."""
        ...

    def found(self, value: bytes) -> list[str]:
        """Return the outputs of a committed record of the sink topic.

        Raises:
            WrongOutputError: there are none, or they differ from the record's description.
        """
        ...


PROJECTED = ("flight_id", "carrier", "origin", "destination", "arrival_delay_min")
"""The fields that the pipeline `delayed-flights` keeps, in order."""


class LateFlights:
    """Expects one record for each late flight, with the projected fields."""

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
        # The other fields are kept with the id, for the comparison with the CSV.
        return [orjson.dumps([flight_id, *(record.get(name) for name in PROJECTED[1:]), len(record)]).decode()]
