"""From the broker's append to the browser's DOM, in stages, while 2,000 transactions a second are written.

`python -m bench.append_to_dom [--seconds S] [--dry]` prints the figures and writes them to
bench/results/append_to_dom.json. A real server follows the journal of a real broker; beside the replayed transactions a
producer commits real ones. In Chromium a MutationObserver notes when the cell of a probe shows another time. Stages:

    append ─▶ tail      the broker's own stamp, to the snapshot on the server's event loop that has the record
    tail ─▶ stream      to the frame that shows it, at a reader of the same stream
    stream ─▶ DOM       to the morphed cell (below 0: the browser had it before that reader)

A record that is never shown because a newer one is, counts with the frame that shows the newer one.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from playwright.sync_api import Browser

from bench.journal_load import PROBE, RECORDS_PER_TRANSACTION, appended_ms, journal_load
from bench.machine import keep, machine
from bench.stamped_server import CLUSTER, Observed, observed
from bench.stream_readers import Reader, Shown, at_part, opened, seen_at, sessions, took_ms
from tests.support.browser import chromium

# A broker, a server and a browser that have just been started still compile what they run.
WARM_UP_S = 20.0
_SETTLE_S = 2.0
_TO_OPEN_S = 4.0
_PAGES = {
    "list_of_ids": (f"/transactions?cluster={CLUSTER}", f"/transactions/stream?cluster={CLUSTER}"),
    "one_id": (
        f"/transactions/id?cluster={CLUSTER}&id={PROBE}",
        f"/transactions/id/stream?cluster={CLUSTER}&id={PROBE}",
    ),
}
_NOTE_WHEN_SHOWN = """() => {
  window.shown = [];
  const region = document.getElementById("live");
  const look = () => {
    const cell = document.querySelector('#transactions tbody tr [data-label="Changed"]');
    const stat = [...document.querySelectorAll(".stat dt")].find((one) => one.textContent === "Changed");
    const time = cell ? cell.dataset.sort * 1000 : Date.parse(stat?.nextElementSibling.querySelector("time")?.dateTime);
    const which = Math.round(time);
    if (!which || window.shown.at(-1)?.[1] === which) return;
    window.shown.push([performance.timeOrigin + performance.now(), which]);
  };
  new MutationObserver(look).observe(region, {subtree: true, childList: true, attributes: true, characterData: true});
}"""


def watch(server: Observed, browser: Browser, page_path: str, stream_path: str, seconds: float) -> tuple[Shown, Shown]:
    """The frames that a reader of the stream and the browser got, with times, after a moment in which both settle."""
    cookie = sessions(server.process, 1)[0]
    name, _, value = cookie.partition("=")
    reader = Reader(server.process.url, stream_path, cookie)
    reading = threading.Thread(target=lambda: asyncio.run(_read(reader, _SETTLE_S + seconds)))
    context = browser.new_context(base_url=server.process.url)
    context.add_cookies([{"name": name, "value": value, "url": server.process.url}])
    try:
        page = context.new_page()
        page.goto(page_path)
        page.evaluate(_NOTE_WHEN_SHOWN)
        reading.start()
        page.wait_for_timeout(_SETTLE_S * 1000)
        from_ms = time.time() * 1000
        page.wait_for_timeout(seconds * 1000)
        found = cast("list[list[float]]", page.evaluate("window.shown"))
        shown = [(at_ms, int(time_ms)) for at_ms, time_ms in found]
        reading.join()
    finally:
        context.close()
    return _since(from_ms, reader.shown), _since(from_ms, shown)


async def _read(reader: Reader, seconds: float) -> None:
    transport = await opened(reader)
    await asyncio.sleep(seconds)
    transport.abort()


def _since(from_ms: float, shown: Shown) -> Shown:
    return [one for one in shown if one[0] >= from_ms]


def _stage(later: Mapping[int, float], earlier: Mapping[int, float]) -> dict[str, float]:
    ordered = took_ms(later, earlier)
    return {"p50_ms": at_part(ordered, 0.5), "p99_ms": at_part(ordered, 0.99), "max_ms": at_part(ordered, 1.0)}


def measure(seconds: float) -> dict[str, object]:
    watched: dict[str, tuple[Shown, Shown]] = {}
    load_s = WARM_UP_S + len(_PAGES) * (seconds + _SETTLE_S + _TO_OPEN_S)
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder, observed(Path(folder)) as server:
        with chromium() as browser, journal_load(server.bootstrap_servers, load_s, beside=True) as load:
            server.wait_for_probe()
            time.sleep(WARM_UP_S)
            for name, paths in _PAGES.items():
                watched[name] = watch(server, browser, *paths, seconds)
            written, committed = (int(count) for count in load.communicate(timeout=60)[0].split())
        appended = appended_ms(server.bootstrap_servers)
        tail = seen_at(server.stop().published, appended)
    figures: dict[str, object] = {
        "transactions_per_second": round(written / load_s),
        "real_transactions_per_second": round(committed / load_s, 1),
        "journal_records_per_transaction": RECORDS_PER_TRANSACTION,
    }
    for name, (streamed, shown) in watched.items():
        stream, dom = seen_at(streamed, appended), seen_at(shown, appended)
        figures[name] = {
            "append_to_tail": _stage({time_ms: tail[time_ms] for time_ms in dom if time_ms in tail}, appended),
            "tail_to_stream": _stage(stream, tail),
            "stream_to_dom": _stage(dom, stream),
            "append_to_dom": _stage(dom, appended),
            "records_of_the_probe": len(dom),
            "frames_per_second": round(len(shown) / seconds, 1),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="on each page")
    parser.add_argument("--dry", action="store_true", help="print only")
    said = parser.parse_args()
    keep("append_to_dom", machine(), measure(said.seconds))


if __name__ == "__main__":
    main()
