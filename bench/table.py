"""docs/speed.md from what the benchmarks wrote into bench/results: `python -m bench.table`.

No figure is typed in: a row names where its figure stands in which result, and what was wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from bench.machine import RESULTS
from workers.audit.rows import ROW

PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
_BEGINNING = """# How fast it is

Every figure comes from a result in `bench/results`, written there by the benchmark that is named; this page is made of
them by `python -m bench.table`. *Load before* is the machine's load average as the benchmark began: with more than
there are cores, it is the others that were measured. A benchmark, its broker and its browser share the server's cores.

| what | wanted | measured | when | cores | load before | by |
|---|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """at: the figure's place in the result, its steps separated by dots. times: what it is shown in proportion by."""

    what: str
    wanted: str
    result: str
    at: str
    unit: str
    times: float = 1


ROWS = (
    Row(
        "decode and fold of `__transaction_state`",
        "100,000 records/s of one core",
        "journal_fold",
        "transaction_records_per_second",
        "records/s",
    ),
    Row("decode and fold of `__consumer_offsets`", "", "journal_fold", "group_records_per_second", "records/s"),
    Row("memory of the fold of 50,000 ids", "at most 200 MB", "journal_fold", "memory_of_ids_mb", "MB"),
    Row(
        "what 50,000 ids add to a server's memory",
        "at most 200 MB",
        "server_memory",
        "added_by_ids_mb",
        "MB",
    ),
    Row("the same at the worst moment", "at most 200 MB", "server_memory", "added_at_the_peak_mb", "MB"),
    Row("the same of ids without a takeover", "", "server_memory", "without_takeovers.added_by_ids_mb", "MB"),
    *(
        Row(f"append to DOM, {page}, {stage}, 99th percentile", wanted, "append_to_dom", f"{key}.{at}.p99_ms", "ms")
        for page, key in (("list of ids", "list_of_ids"), ("one id", "one_id"))
        for stage, at, wanted in (
            ("append to tail", "append_to_tail", ""),
            ("tail to stream", "tail_to_stream", ""),
            ("stream to DOM", "stream_to_dom", ""),
            ("all of it", "append_to_dom", "at most 250 ms"),
        )
    ),
    Row(
        "append to a reader of snapshots, 99th percentile, of every id",
        "",
        "observer_latency",
        "append_to_reader_ms_p99",
        "ms",
    ),
    Row("Transactions over 50,000 ids, 95th percentile", "50 ms", "transactions_page", "answers.all.p95_ms", "ms"),
    Row("500 event streams: append to stream, median", "", "event_streams", "append_to_stream_ms_p50", "ms"),
    Row("500 event streams: append to stream, 99th percentile", "", "event_streams", "append_to_stream_ms_p99", "ms"),
    Row(
        "500 event streams: fewest frames of any stream",
        "none starves",
        "event_streams",
        "fewest_frames_per_second",
        "frames/s",
    ),
    Row("500 event streams: the server's processor time", "", "event_streams", "server_cores", "cores"),
    Row(
        "500 event streams: connections to the broker",
        "as without streams",
        "event_streams",
        "connections_to_the_broker",
        "",
    ),
    Row("why stuck: the producer is named, first answer", "1 s", "why_stuck", "first_ms", "ms"),
    Row("audit of 10,000,000 ids, all of it", "", "audit", "audit_s", "s"),
    Row("the same: its Python processes together", "", "audit", "python_mb", "MB"),
    Row("the same: its JVM", "", "audit", "jvm_mb", "MB"),
    Row("the same of 100,000,000 ids, in proportion", "", "audit", "audit_s", "min", times=10 / 60),
    Row("the same: rows in Spark's shuffle", "", "audit", "records", "MB", times=10 * ROW.size / 1_000_000),
    Row("audit of 1,000,000 ids, as it reads", "", "audit_readers", "rows_s", "s"),
    Row("the same by spark-sql-kafka", "", "audit_readers", "connector_s", "s"),
    Row("the same by a PySpark data source", "", "audit_readers", "source_s", "s"),
    Row("identity loop, bare", "", "identity_loop", "bare.records_per_second", "records/s"),
    Row("identity loop in a Spark task", "", "identity_loop", "spark.records_per_second", "records/s"),
    *(
        Row(f"loop that records its offsets, to one that does not: {of}", wanted, "offset_recorder", f"{key}.{at}", "")
        for of, key, wanted in (
            ("records/s", "records_per_second", "at least 0.98"),
            ("its thread's processor time for a record", "thread_cpu_per_record", "at most 1.02"),
        )
        for of, at in ((of, "on_to_off"), (f"{of}, from (95 %)", "low"), (f"{of}, to (95 %)", "high"))
    ),
    Row(
        "loop that records its offsets: in the recorder, of its thread's processor time",
        "2 %",
        "offset_recorder",
        "in_the_recorder.percent",
        "%",
    ),
    Row("live check of an offset log, 100,000 events of two weeks", "", "offset_check", "two_weeks.check_ms", "ms"),
    Row("the same, all of the last hour", "", "offset_check", "storm.check_ms", "ms"),
    Row("the same: nobody else is answered for", "", "offset_check", "storm.longest_pause_ms", "ms"),
)


def page() -> str:
    """What docs/speed.md says of the results that there are."""
    return _BEGINNING + "".join(_line(row) for row in ROWS)


def _line(row: Row) -> str:
    path = RESULTS / f"{row.result}.json"
    by = f"`python -m bench.{row.result}`"
    if not path.exists():
        return f"| {row.what} | {row.wanted} | not yet on a quiet machine | | | | {by} |\n"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    figure: Any = result
    for step in row.at.split("."):
        figure = figure[step]
    shown = figure if row.times == 1 else round(figure * row.times)
    measured = f"{shown:,} {row.unit}".strip()
    on = cast("Mapping[str, Any]", result.get("machine", result))
    load = on.get("load_before", on.get("load_average"))
    cells = (row.what, row.wanted, measured, on.get("measured_at", ""), on.get("cores", ""), _rounded(load), by)
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def _rounded(load: float | None) -> str:
    return "" if load is None else f"{load:.1f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
