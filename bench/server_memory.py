"""What 50,000 ids add to a server's memory, in megabytes: read from a real broker's journal, and looked at.

`python -m bench.server_memory [--dry]` prints the figures and writes them to bench/results/server_memory.json. Each id
has the past of a takeover with its records, as in bench/journal_fold.py, and then none; each time transactions go on,
and somebody watches the list of all ids. Peak: the most that the process had at any moment, less what it had before.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import TOPIC, TransactionStatus, encode_key, encode_value
from bench.journal_fold import IDS, TAKEOVER, state_of
from bench.journal_load import journal_load
from bench.machine import keep, machine
from bench.stamped_server import CLUSTER, observed
from bench.stream_readers import Reader, opened, sessions
from tests.support.waiting import wait_for

WATCHED_S = 10.0
Past = Sequence[tuple[TransactionStatus, int]]
_STARTED: Past = TAKEOVER[:2]


def fill(past: Past, bootstrap_servers: str) -> None:
    """The journal of a cluster with many ids."""
    # Brokers let no client write into their journals.
    settings: dict[str, str | int] = {"client.id": "__admin_client", "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    for number in range(IDS):
        name = f"fl.t.pipeline-{number % 500}.{number // 500}.{number % 7}"
        for status, epoch in past:
            producer.produce(
                TOPIC,
                key=encode_key(name),
                value=encode_value(state_of(number, status, epoch)),
                partition=transaction_log_partition(name),
            )
    assert producer.flush(60) == 0


async def watch(server_url: str, cookie: str) -> int:
    """Read the list's stream for a while; how many frames there were."""
    reader = Reader(server_url, f"/transactions/stream?cluster={CLUSTER}", cookie)
    transport = await opened(reader)
    await asyncio.sleep(WATCHED_S)
    transport.abort()
    return len(reader.frames_at)


def measure(past: Past) -> dict[str, object]:
    filled = partial(fill, past)
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        observed(Path(folder), fill=filled) as server,
    ):
        began = time.monotonic()
        observer = f"/api/v1/clusters/{CLUSTER}/observer"
        wait_for(
            lambda: server.process.ask(observer).json()["transactions"]["records_read"] >= IDS * len(past),
            60,
            lambda: server.process.ask(observer).text,
        )
        read_s = time.monotonic() - began
        read_mb = server.memory_mb()
        with journal_load(server.bootstrap_servers, WATCHED_S + 2, beside=False) as load:
            server.wait_for_probe()
            frames = asyncio.run(watch(server.process.url, sessions(server.process, 1)[0]))
            watched_mb = server.memory_mb()
            load.communicate(timeout=60)
        peak_mb = server.peak_memory_mb()
    return {
        "before_mb": round(server.memory_before_mb),
        "read_mb": round(read_mb),
        "watched_mb": round(watched_mb),
        "added_by_ids_mb": round(watched_mb - server.memory_before_mb),
        "added_at_the_peak_mb": round(peak_mb - server.memory_before_mb),
        "seconds_until_read": round(read_s, 1),
        "frames_per_second": round(frames / WATCHED_S, 1),
    }


def main() -> None:
    on = machine()
    keep("server_memory", on, {"ids": IDS, **measure(TAKEOVER), "without_takeovers": measure(_STARTED)})


if __name__ == "__main__":
    main()
