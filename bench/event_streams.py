"""500 event streams at once on one server: what each of them gets, and what they cost server and broker.

`python -m bench.event_streams [--streams N] [--seconds S] [--dry]` prints the figures and writes them to
bench/results/event_streams.json. They are those of a hundred people with as many sessions, on the pages that one would
have open at an incident; meanwhile 2,000 transactions a second are written. Latency: from the broker's
append of a probe's record to the first frame that shows it or a newer one, of every stream, frames held back to be
coalesced included. Gap: the longest that any stream waited for a frame.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.journal_load import PROBE, RECORDS_PER_TRANSACTION, appended_ms, journal_load
from bench.machine import keep, machine
from bench.stamped_server import CLUSTER, Observed, observed
from bench.stream_readers import Reader, at_part, opened, seen_at, sessions, took_ms

OPEN_WITHIN_S = 90.0
PEOPLE = 100
# The newest change of every id is in the list; the probe is the first by name.
PAGES = (
    f"/transactions/stream?cluster={CLUSTER}",
    f"/transactions/stream?cluster={CLUSTER}&sort=id",
    f"/transactions/id/stream?cluster={CLUSTER}&id={PROBE}",
    f"/transactions/stream?cluster={CLUSTER}&search={PROBE}",
)


async def read(server: Observed, cookies: list[str], seconds: float) -> tuple[list[Reader], dict[str, object]]:
    """Open the streams and read them; what they cost from when each of them has had a frame."""
    readers = [Reader(server.process.url, PAGES[number % len(PAGES)], cookie) for number, cookie in enumerate(cookies)]
    transports = [await opened(reader) for reader in readers]
    opened_at = time.monotonic()
    while waiting := sum(not reader.frames_at for reader in readers):
        assert time.monotonic() - opened_at < OPEN_WITHIN_S, f"{waiting} streams had no frame in {OPEN_WITHIN_S:g} s"
        await asyncio.sleep(0.1)
    open_s = time.monotonic() - opened_at
    before, received = server.cost(), sum(reader.received_bytes for reader in readers)
    began_ms = time.time() * 1000
    await asyncio.sleep(seconds)
    after = server.cost()
    took_s = time.time() - began_ms / 1000
    cost: dict[str, object] = {
        "seconds_until_all_had_a_frame": round(open_s, 1),
        "transactions_per_second": round((after.records_read - before.records_read) / RECORDS_PER_TRANSACTION / took_s),
        "server_cores": round((after.cpu_s - before.cpu_s) / took_s, 2),
        "server_memory_mb": round(after.memory_mb),
        "database_transactions_per_second": round(
            (after.database_transactions - before.database_transactions) / took_s
        ),
        "connections_to_the_broker": after.broker_connections,
        "megabytes_per_second": round((sum(reader.received_bytes for reader in readers) - received) / took_s / 1e6, 1),
    }
    ended_ms = time.time() * 1000
    for transport in transports:
        transport.abort()
    for reader in readers:
        reader.shown = [one for one in reader.shown if one[0] >= began_ms]
        # A stream without a frame waits all the time.
        reader.frames_at = [began_ms, *(one for one in reader.frames_at if one >= began_ms), ended_ms]
    return readers, cost


def measure(streams: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder, observed(Path(folder)) as server:
        people = sessions(server.process, min(PEOPLE, streams))
        cookies = [people[number % len(people)] for number in range(streams)]
        alone = server.cost().broker_connections
        with journal_load(server.bootstrap_servers, OPEN_WITHIN_S + seconds, beside=False):
            server.wait_for_probe()
            readers, cost = asyncio.run(read(server, cookies, seconds))
        appended = appended_ms(server.bootstrap_servers)
        every = [took_ms(seen_at(reader.shown, appended), appended) for reader in readers]
        fetches = server.stop().fetches
    all_ms = sorted(one for reader in every for one in reader)
    frames = [len(reader.frames_at) - 2 for reader in readers]
    gaps = [max(b - a for a, b in zip(reader.frames_at, reader.frames_at[1:], strict=False)) for reader in readers]
    return {
        "streams": streams,
        "sessions": len(people),
        "pages": len(PAGES),
        "append_to_stream_ms_p50": at_part(all_ms, 0.5),
        "append_to_stream_ms_p99": at_part(all_ms, 0.99),
        "slowest_stream_ms_p50": max(at_part(one, 0.5) for one in every if one),
        "frames_per_second_of_a_stream": round(median(frames) / seconds, 1),
        "fewest_frames_per_second": round(min(frames) / seconds, 1),
        "longest_gap_ms": round(max(gaps)),
        "streams_without_a_frame": frames.count(0),
        **cost,
        "connections_to_the_broker_without_streams": alone,
        "fetches": fetches,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--dry", action="store_true", help="print only")
    said = parser.parse_args()
    on = machine()
    keep("event_streams", on, measure(said.streams, said.seconds))


if __name__ == "__main__":
    main()
