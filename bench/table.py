"""docs/measured/speed.md from what the benchmarks wrote into bench/results: `python -m bench.table`.

No figure is typed in: a row names where its figure stands in which result, and what was wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from bench.latency.__main__ import INTERVALS_MS, RATES, key
from bench.machine import RESULTS
from workers.audit.rows import ROW

PAGE = Path(__file__).parent.parent / "docs" / "measured" / "speed.md"
_BEGINNING = """# Speed and memory

For operators and developers: the measured figures of the server, the loop and the tools, with their goals. Each is
from a result in `bench/results`, written by the named benchmark (`python -m bench.…`); `python -m bench.table` makes
this page of them. *Load before* is the machine's load average at the begin: above the number of cores, other processes
were measured too. Broker, browser and benchmark share the cores. Latency is that of `exactly_once_v2`.
[waiting.md](waiting.md) has latency, start and drain in detail.

| figure | goal | measured | date | cores | load before | benchmark |
|---|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """at: the figure's place in the result, its steps separated by dots; in the steps of a growth, the size.

    times: what it is shown in proportion by.
    """

    what: str
    wanted: str
    result: str
    at: str
    unit: str
    times: float = 1


ROWS = (
    Row(
        "decoding of `__transaction_state` into state",
        "100,000 records/s of one core",
        "journal_fold",
        "transaction_records_per_second",
        "records/s",
    ),
    Row("decoding of `__consumer_offsets` into state", "", "journal_fold", "group_records_per_second", "records/s"),
    Row("materialized state of 50,000 ids", "at most 200 MB", "journal_fold", "memory_of_ids_mb", "MB"),
    Row(
        "server memory for 50,000 ids",
        "at most 200 MB",
        "server_memory",
        "added_by_ids_mb",
        "MB",
    ),
    Row("the same, highest", "at most 200 MB", "server_memory", "added_at_the_peak_mb", "MB"),
    Row("the same, ids without a takeover", "", "server_memory", "without_takeovers.added_by_ids_mb", "MB"),
    *(
        Row(f"append to DOM, {page}, {stage}, p99", wanted, "append_to_dom", f"{key}.{at}.p99_ms", "ms")
        for page, key in (("list of ids", "list_of_ids"), ("one id", "one_id"))
        for stage, at, wanted in (
            ("append to tail", "append_to_tail", ""),
            ("tail to stream", "tail_to_stream", ""),
            ("stream to DOM", "stream_to_dom", ""),
            ("total", "append_to_dom", "at most 250 ms"),
        )
    ),
    Row(
        "append to a reader of snapshots, every id, p99",
        "",
        "observer_latency",
        "append_to_reader_ms_p99",
        "ms",
    ),
    Row("Transactions over 50,000 ids, p95", "50 ms", "transactions_page", "answers.all.p95_ms", "ms"),
    Row("500 event streams: append to stream, median", "", "event_streams", "append_to_stream_ms_p50", "ms"),
    Row("500 event streams: append to stream, p99", "", "event_streams", "append_to_stream_ms_p99", "ms"),
    Row(
        "500 event streams: fewest frames of any stream",
        "no stream without frames",
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
    Row("`fenceline stuck`: first answer with the producer", "1 s", "why_stuck", "first_ms", "ms"),
    Row("audit of 10,000,000 ids", "", "audit", "audit_s", "s"),
    Row("the same: Python processes together", "", "audit", "python_mb", "MB"),
    Row("the same: JVM", "", "audit", "jvm_mb", "MB"),
    Row("the same for 100,000,000 ids, in proportion", "", "audit", "audit_s", "min", times=10 / 60),
    Row("the same: rows in Spark's shuffle", "", "audit", "records", "MB", times=10 * ROW.size / 1_000_000),
    Row("audit of 1,000,000 ids, its own reader", "", "audit_readers", "rows_s", "s"),
    Row("the same by spark-sql-kafka", "", "audit_readers", "connector_s", "s"),
    Row("the same by a PySpark data source", "", "audit_readers", "source_s", "s"),
    Row("identity loop, bare", "", "identity_loop", "bare.records_per_second", "records/s"),
    Row("identity loop in a Spark task", "", "identity_loop", "spark.records_per_second", "records/s"),
    *(
        Row(f"loop with offset log, divided by without: {of}", wanted, "offset_recorder", f"{key}.{at}", "")
        for of, key, wanted in (
            ("records/s", "records_per_second", "at least 0.98"),
            ("thread time for a record", "thread_cpu_per_record", "at most 1.02"),
        )
        for of, at in ((of, "on_to_off"), (f"{of}, from (95 %)", "low"), (f"{of}, to (95 %)", "high"))
    ),
    Row(
        "loop with offset log: share of the recorder in its thread's time",
        "2 %",
        "offset_recorder",
        "in_the_recorder.percent",
        "%",
    ),
    *(
        Row(
            f"latency, {rate:,} records/s, commits each {interval_ms} ms, {where}, {which}",
            "at most 30 ms" if (where, rate, interval_ms, at) == ("in Spark", 1_000, 10, "p99_ms") else "",
            "latency",
            f"medians.{key(name, rate, interval_ms)}.{at}",
            "ms",
        )
        for rate in RATES
        for interval_ms in INTERVALS_MS
        for where, name in (("in Spark", "spark"), ("bare", "bare"), ("Kafka Streams", "streams"))
        for which, at in (("median", "p50_ms"), ("p99", "p99_ms"))
    ),
    Row("start request to the first committed record, median", "", "start", "start.all_s.median", "s"),
    Row("the same, lowest", "", "start", "start.all_s.lowest", "s"),
    Row("the same, highest", "", "start", "start.all_s.highest", "s"),
    Row("drain request to stopped, median", "", "start", "drain.all_s.median", "s"),
    Row("the same, lowest", "", "start", "drain.all_s.lowest", "s"),
    Row("the same, highest", "", "start", "drain.all_s.highest", "s"),
    Row(
        "Avro files of 1,000 users by the hour, two tasks, exactly once",
        "as Spark's Avro writer",
        "files",
        "records_per_second.fenceline",
        "records/s",
    ),
    Row("the same, in JSON", "", "files", "mb_per_second.fenceline", "MB/s"),
    Row("the same by Spark's Avro writer, no references", "", "files", "records_per_second.spark avro", "records/s"),
    Row("the same, divided by Spark's, median of the rounds", "at least 1", "files", "ratio.median", ""),
    Row("the same, lowest", "", "files", "ratio.low", ""),
    Row("the same, highest", "", "files", "ratio.high", ""),
    Row("the same, memory of the largest task", "at most 600 MB", "files", "largest_task_mb", "MB"),
    Row("the same with Python objects (`native_records` is off)", "", "files", "to_python.other", "records/s"),
    Row("native records, divided by Python objects, median of the rounds", "", "files", "to_python.median", ""),
    Row("the same, lowest", "", "files", "to_python.low", ""),
    Row("the same, highest", "", "files", "to_python.high", ""),
    *(
        Row(f"writing of Avro files, {what}: Python's time divided by C's", wanted, "file_encoding", f"{key}.ratio", "")
        for key, what, wanted in (
            ("users", "the same records", ""),
            ("doubles", "10 numbers of 17 digits", ""),
            ("objects", "a list of 4 objects and a map", ""),
            ("integers", "100 integers", ""),
            ("text", "a text of 2 kB", ""),
            ("left", "values that C leaves to Python", "at least 0.95"),
        )
    ),
    Row("live check of an offset log, 100,000 events of two weeks", "", "offset_check", "two_weeks.check_ms", "ms"),
    Row("the same, all of the last hour", "", "offset_check", "storm.check_ms", "ms"),
    Row("the same: longest pause of other answers", "", "offset_check", "storm.longest_pause_ms", "ms"),
    Row("the server's processor time while 100 tasks report", "", "growth", "tasks.steps.100.server_cores", "cores"),
    Row("the same, of Postgres", "", "growth", "tasks.steps.100.postgres_cores", "cores"),
    Row("the same: heartbeat, p99", "", "growth", "tasks.steps.100.heartbeat_ms_p99", "ms"),
    Row("the same: heartbeats refused", "none", "growth", "tasks.steps.100.refused", ""),
    Row("200 tasks report: the server's processor time", "", "growth", "tasks.steps.200.server_cores", "cores"),
    Row("50 pipelines: the server's processor time", "", "growth", "pipelines.steps.50.server_cores", "cores"),
    Row("the same: heartbeats refused", "none", "growth", "pipelines.steps.50.refused", ""),
    Row(
        "one pipeline of two tasks, 400 records/s: the server's processor time",
        "at most 0.05 cores",
        "server_load",
        "running.server_cores",
        "cores",
    ),
    Row("the same with its page open", "", "server_load", "running_with_a_page.server_cores", "cores"),
    Row("the same, without a run", "", "server_load", "without_a_run.server_cores", "cores"),
    Row(
        "50,000 ids, 5,000 groups, 10,000 topics, 500 open pages: slowest page, p95",
        "at most 100 ms",
        "pages",
        "slowest_p95_ms",
        "ms",
    ),
    Row("the same, without open pages", "at most 100 ms", "pages", "slowest_p95_alone_ms", "ms"),
    Row("the same: the server's processor time, 500 open pages", "", "pages", "server_cores", "cores"),
    Row("50,000 ids: the server's processor time", "", "growth", "ids.steps.50000.server_cores", "cores"),
)


def page() -> str:
    """The text of docs/measured/speed.md from the present results."""
    return _BEGINNING + "".join(_line(row) for row in ROWS)


def _line(row: Row) -> str:
    path = RESULTS / f"{row.result}.json"
    by = f"`{row.result}`"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if row.at.partition(".")[0] not in result:
        return f"| {row.what} | {row.wanted} | not yet on a quiet machine | | | | {by} |\n"
    figure, on = _found(result, row.at)
    shown = figure if row.times == 1 else round(figure * row.times)
    measured = f"{shown:,} {row.unit}".strip()
    load = on.get("load_before", on.get("load_average"))
    cells = (row.what, row.wanted, measured, on.get("measured_at", ""), on.get("cores", ""), _rounded(load), by)
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def _found(result: Mapping[str, Any], at: str) -> tuple[Any, Mapping[str, Any]]:
    """The figure, and on what its part of the result was measured."""
    on: Any = result.get("machine", result)
    part: Any = result
    for step in at.split("."):
        part = _inside(part, step)
        on = _machine_of(part) or on
    return part, on


def _inside(part: Any, step: str) -> Any:
    """In the steps of a growth: the one of that size."""
    if isinstance(part, list):
        return next(one for one in cast("list[Mapping[str, Any]]", part) if str(one["size"]) == step)
    return part[step]


def _machine_of(part: Any) -> Any:
    return cast("Mapping[str, Any]", part).get("machine") if isinstance(part, dict) else None


def _rounded(load: float | None) -> str:
    return "" if load is None else f"{load:.1f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
