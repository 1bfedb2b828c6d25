"""Check the demo's third pipeline: each closed window is committed once, with the figures that the CSV gives.

The expected windows are computed from the fed flights, without Spark. A window is closed once the watermark has passed
its end. Spark closes windows in the order of their ends, so every window up to the newest committed one must be there.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from confluent_kafka.admin import AdminClient

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.products.demo import window_pipeline
from app.products.demo.feed import FedFlight
from app.products.demo.outputs import WrongOutputError
from app.products.demo.sink_reader import SinkReader


class Windows:
    """Windows as texts that begin with their hour. No flight has an output of its own."""

    def expected(self, fed: FedFlight) -> str | None:
        del fed
        return None

    def found(self, value: bytes) -> list[str]:
        try:
            record = orjson.loads(value)
            fields = [record["hour"], record["carrier"], record["flights"], record["arrived"]]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise WrongOutputError(f"not a window: {value!r}") from None
        return [_text([*fields, record.get("mean_delay_min")])]


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """windows: distinct committed windows. expected: closed windows by the CSV. lost: of these, the missing ones.
    duplicated: copies beyond the first. wrong: committed windows that the CSV does not give; a few, as texts.
    """

    windows: int
    expected: int
    lost: int
    duplicated: int
    wrong: tuple[str, ...]
    wrong_count: int

    @property
    def all_wrong(self) -> int:
        """The windows that are lost, duplicated, or differ from the CSV."""
        return self.lost + self.duplicated + self.wrong_count

    def sentence(self) -> str:
        """Return it as one line for people."""
        line = (
            f"{self.windows:,} windows by carrier and hour · expected {self.expected:,} · lost {self.lost:,} · "
            f"duplicated {self.duplicated:,}"
        )
        return f"{line} · wrong {self.wrong_count:,}, such as {self.wrong[0]}" if self.wrong else line


def read_windows(bootstrap_servers: str) -> SinkReader:
    """Read all committed windows."""
    reader = SinkReader(bootstrap_servers, window_pipeline.SINK_TOPIC, Windows())
    try:
        with AdminClient({"bootstrap.servers": bootstrap_servers, **NEVER_CREATE_TOPICS, "log_level": 0}) as admin:
            reader.read_to_end(admin)
    finally:
        reader.close()
    return reader


def judge(seen: Counter[str], unreadable: Iterable[str], flights: Iterable[FedFlight]) -> WindowVerdict:
    """Compare the committed windows with those of the fed flights."""
    of_csv = _windows_of(flights)
    newest = max((_hour_of(window) for window in seen), default="")
    closed = {window for window in of_csv if _hour_of(window) <= newest}
    wrong = [*unreadable, *sorted(seen.keys() - closed)]
    return WindowVerdict(
        windows=len(seen),
        expected=len(closed),
        lost=len(closed - seen.keys()),
        duplicated=seen.total() - len(seen),
        wrong=tuple(wrong[:5]),
        wrong_count=len(wrong),
    )


def _windows_of(flights: Iterable[FedFlight]) -> set[str]:
    departures: Counter[tuple[str, str]] = Counter()
    arrived: Counter[tuple[str, str]] = Counter()
    delays: Counter[tuple[str, str]] = Counter()
    for lap, flight in flights:
        window = (f"{flight.departure_in(lap)[:13]}:00", flight.carrier)
        departures[window] += 1
        if flight.arrival_delay_min is not None:
            arrived[window] += 1
            delays[window] += flight.arrival_delay_min
    return {
        _text([*window, count, arrived[window], delays[window] / arrived[window] if arrived[window] else None])
        for window, count in departures.items()
    }


def _text(fields: list[object]) -> str:
    return orjson.dumps(fields).decode()


def _hour_of(window: str) -> str:
    return str(orjson.loads(window)[0])
