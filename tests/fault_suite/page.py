"""docs/measured/faults.md from the ledger: `python -m tests.fault_suite.page`. No figure is typed in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.edges.embedded.broker_settings import SETTINGS_FOR_ONE_MACHINE
from tests.fault_suite.freeze_points import Point
from tests.fault_suite.freezes import Outlasted, place_of
from tests.fault_suite.ledger import LEDGER, Entry, read, total
from tests.fault_suite.plan import Kind
from tests.fault_suite.proxied_cluster import SETTINGS
from tests.fault_suite.run import FLOWS_WITHIN_S
from tests.support.pipelines import SESSION_TIMEOUT_MS

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "faults.md"

_BEGINNING = """# Fault runs

For developers and reviewers: the results of all runs of `make faults`, failed ones included, and the causes of their
failures. Faults are drawn from a seed. A verifier that shares no code with the loop judges records from the brokers'
logs ([ADR](../adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)). `make numbers` makes this page of
`tests/results/faults.jsonl`; [mutations.md](mutations.md) shows the damage without each protection.

"""
_SHOWN_ABORTED = """
Aborted records that brokers returned are counted apart, and do not fail a run. A returning broker may write an index,
while it catches up, that lacks later aborted transactions. As leader it returns their records at `read_committed`. No
client can detect or prevent this ([client-facts.md](../client-facts.md)). A record counts here only if the log shows
that it was aborted and a broker's own index proves that it is hidden
([ADR](../adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)).
"""
_A_RUN = f"""
## A run

`make faults SEED=N MINUTES=M` starts a cluster, feeds ids into a pipeline, applies one fault after the other, waits for
rest, and judges. The n-th fault depends on seed and stage only. A seed repeats the order of faults, but not their
interleaving with brokers, clients and kernel.

- Every kind comes once before any comes twice. Half of the lasting faults are shorter than any timeout. The others
  outlast the session, or session and transaction timeout.
- After a third of the faults every partition must have outputs within {FLOWS_WITHIN_S:.0f} s. The other faults come
  during recovery.
- A late fault is logged as not done, and not counted.
- At rest no transaction is open, each LSO is the high watermark, and the group's offsets are the source's ends. A
  consumer that followed the sink has the same records as a new one.
- `GUARANTEE` is `exactly_once_v2` or `exactly_once`. `at_least_once` is the negative control: it must fail, and is not
  entered.
- `ARGS` takes `--brokers 1`, `--fencing group_only`, `--only "driver killed" "disk full"` and `--keep`, among others.
- A failed run leaves a folder below `build/faults` with the logs of faults, workers and brokers, and both journals. It
  also has the records around the first wrong one of each kind.
"""
_BY_FAULT = """
## Faults

The gap is the longest time without an output of one source partition. It counts for the fault that began in it, or else
for the last one before. A gap in which several began counts only for all of them together.

| timeout of the suite | value |
|---|---|
"""
_FREEZES = """
## Frozen workers

A worker is stopped (SIGSTOP) at a point of the loop, or anywhere, and thawed later. Past its session it is no member.
Past the transaction timeout and the coordinator's next check its producer is fenced. """
_NOTHING = "Nothing is in the ledger yet.\n"

_SESSION = "the member's session timeout"
_TRANSACTION = "the transaction timeout and the coordinator's next check"
_REQUESTS = "its duration, then the client's retry; past the session, a rebalance"
_FROZEN = f"its duration, at most {_SESSION}, and {_TRANSACTION} if its offsets are pending"
_NOT_IN_THE_PATH = "none: not in the path of records"
_BOUNDS: dict[Kind, str] = {
    Kind.WORKER_KILLED: f"{_SESSION}, unless its next attempt comes earlier",
    Kind.OFFSETS_DELETED: "a drain of all, a refused start, an offset reset, and a start of all",
    Kind.WORKER_TERMINATED: "a drain and a rebalance",
    Kind.WORKER_FROZEN: _FROZEN,
    Kind.WORKER_REPLACED: f"{_SESSION}: the next attempt's init ends its transaction, not its membership",
    Kind.WORKER_DOUBLED: "a rebalance; the next attempt's init ends the first one's transaction",
    Kind.INSTANCES_SCALED: "a rebalance",
    Kind.PARTITION_ADDED: "the client's next metadata request, and a rebalance",
    Kind.BROKER_KILLED: "until it is back or its leaders have moved: the brokers' session, then an election",
    Kind.BROKER_PAUSED: "its duration, or until its leaders have moved: the brokers' session, then an election",
    Kind.BROKERS_ROLLED: "a controlled shutdown for each: an election, and the coordinators load their partitions",
    Kind.COORDINATORS_MOVED: "an election, and the coordinators load their partitions",
    Kind.PREPARED_MOVED: "an election, and the new coordinator loads its partition and completes the markers",
    Kind.CONNECTIONS_CUT: "the client's reconnect",
    Kind.BROKER_UNREACHABLE: _REQUESTS,
    Kind.STALLED_TO_BROKER: _REQUESTS,
    Kind.STALLED_TO_CLIENT: _REQUESTS,
    Kind.SLOW: "the backlog that the slow time leaves",
    Kind.DELAYED: "the delay, several times a commit",
    Kind.OUTPUT_TOO_SLOW: f"{_TRANSACTION} twice, until checkpoints are small enough; then the slow speed",
    Kind.COMMIT_REQUEST_LOST: "the time without an answer, then the client's retry",
    Kind.COMMIT_ANSWER_LOST: "the time without an answer, then the client's retry",
    Kind.EXECUTOR_KILLED: f"{_SESSION}, or Spark's new attempt if earlier",
    Kind.EXECUTOR_TERMINATED: "a drain and a rebalance, or Spark's new attempt",
    Kind.EXECUTOR_FROZEN: _FROZEN,
    Kind.WORKER_ORPHANED: "it drains when its daemon has ended: a rebalance, or Spark's new attempt",
    Kind.DRIVER_KILLED: f"{_SESSION}; then the other instance alone, until the server has started another driver",
    Kind.DRIVER_TERMINATED: "a drain and a rebalance",
    Kind.INSTANCE_KILLED: f"{_SESSION}, and {_TRANSACTION} if its offsets are pending",
    Kind.ORDINAL_HELD_TWICE: "the fencing of one of the two, and a rebalance",
    Kind.SPARK_WORKER_KILLED: f"{_SESSION}, or Spark's new attempt on the other worker if earlier",
    Kind.SPARK_WORKER_TERMINATED: "a drain and a rebalance, or Spark's new attempt on the other worker",
    Kind.SPARK_MASTER_KILLED: _NOT_IN_THE_PATH,
    Kind.SPARK_MASTER_TERMINATED: _NOT_IN_THE_PATH,
    Kind.SERVER_KILLED: _NOT_IN_THE_PATH,
    Kind.SERVER_PAUSED: _NOT_IN_THE_PATH,
    Kind.SERVER_SUPERSEDED: _NOT_IN_THE_PATH,
    Kind.SERVER_RESTARTED: _NOT_IN_THE_PATH,
    Kind.POSTGRES_KILLED: _NOT_IN_THE_PATH,
    Kind.POSTGRES_PAUSED: _NOT_IN_THE_PATH,
    Kind.POSTGRES_RESTARTED: _NOT_IN_THE_PATH,
    Kind.DATABASE_RESTORED: _NOT_IN_THE_PATH,
    Kind.DISK_FULL: _NOT_IN_THE_PATH,
}


EXPLAINED = {
    "2026-11-22T20:35:52+00:00": (
        "two causes. A consumer had stopped asking for its start offsets (librdkafka), so its partitions had no "
        "outputs; such an attempt now ends and is restarted. Records came out twice after the kill or restart of the "
        "single broker. It had noted transactions as complete without their markers, while its partitions had no "
        "leader (Kafka). This takes the loss of all replicas at once, and is not done to a single broker any more. "
        "Both are in [client-facts.md](../client-facts.md)."
    ),
    "2026-11-23T06:30:25+00:00": (
        "the suite. With a producer for each partition, a replaced attempt that lives is not fenced. So there were as "
        "many members as partitions, and a new member took none. Such an attempt now drains at the next fault "
        "([ADR](../adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)); the same seed is exact since."
    ),
    "2026-11-23T07:15:08+00:00": (
        "a machine with more than a hundred threads for two cores. Spark's new executor took longer than the 60 s "
        "after which a driver without executors ends. The server started another application, while the suite waited "
        "for the next attempt in the first one. The judged records are exact."
    ),
    "2026-11-26T11:01:15+00:00": (
        "a machine with twenty processes for two cores. The suite ran at the lowest priority: the first output took "
        "longer than 60 s, and no fault was begun. The same seed is exact on one broker, ten minutes later."
    ),
}
"""By date, written by hand."""


def page(entries: Sequence[Entry]) -> str:
    return _BEGINNING + (
        "".join([_sum(entries), _A_RUN, _kinds(entries), _freezes(entries), _runs(entries)]) if entries else _NOTHING
    )


def _sum(entries: Sequence[Entry]) -> str:
    found = total(entries)
    figures = {
        "runs": found.runs,
        "runs that failed": found.failed,
        "of them not judged completely: only their errors count below": found.unjudged,
        "faults": found.faults,
        "records": found.records,
        "transactions": found.transactions,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "torn": found.torn,
        "out of order": found.out_of_order,
        f"contradictions in the offset log, of {found.asked} runs with a check": found.offset_log,
    }
    if found.looked:
        row = f"aborted records that brokers returned, of {found.looked} runs with a check"
        figures[row] = found.shown_aborted
    since, until = min(entry.date for entry in entries), max(entry.date for entry in entries)
    return (
        "| all runs | number |\n|---|---|\n"
        + "".join(_cells(name, f"{number:,}") for name, number in figures.items())
        + _cells("longest gap of a partition", f"{found.longest_standstill_s:g} s")
        + _cells("from", since)
        + _cells("to", until)
        + f"\nVersions: {'; '.join(_versions(entries))}.\n{_SHOWN_ABORTED}"
    )


def _kinds(entries: Sequence[Entry]) -> str:
    usual = {field.name: field.default for field in msgspec.structs.fields(PipelineDefinition)}
    timeouts = {
        "session of a classic group": SESSION_TIMEOUT_MS,
        "session of a KIP-848 group": int(SETTINGS["group.consumer.session.timeout.ms"]),
        "transaction": usual["transaction_timeout_ms"],
        "between the coordinator's checks for it": int(
            SETTINGS["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
        ),
        "session of the brokers": int(SETTINGS_FOR_ONE_MACHINE["broker.session.timeout.ms"]),
    }
    return (
        _BY_FAULT
        + "".join(_cells(name, f"{ms / 1000:g} s") for name, ms in timeouts.items())
        + "\n| fault | number | longest gap | bound |\n|---|---|---|---|\n"
        + "".join(
            _cells(
                f"`{kind}`",
                f"{found.faults:,}",
                _standstill(found.longest_standstill_s),
                _BOUNDS.get(kind, "not known"),
            )
            for kind, found in total(entries).by_kind.items()
        )
    )


def _freezes(entries: Sequence[Entry]) -> str:
    noting = [entry for entry in entries if entry.judged and entry.freezes is not None]
    if not noting:
        return f"{_FREEZES}No run has recorded it yet.\n"
    found = total(noting).freezes
    columns = [f"outlasted {outlasted}" for outlasted in Outlasted]
    return (
        f"{_FREEZES}{len(noting)} of {len(entries)} runs recorded it.\n\n"
        + _cells("point", *columns)
        + f"|---{'|---' * len(columns)}|\n"
        + "".join(
            _cells(place, *(f"{found.get(place, {}).get(outlasted, 0):,}" for outlasted in Outlasted))
            for place in map(place_of, (*Point, None))
        )
    )


def _standstill(longest_s: float) -> str:
    return f"{longest_s:g} s" if longest_s else "none"


def _runs(entries: Sequence[Entry]) -> str:
    return (
        "\n## Runs\n\n"
        "| date | cluster | seed | took | faults | records | transactions | verdict | commit |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "".join(map(_run, entries)) + _explained(entries)
    )


def _explained(entries: Sequence[Entry]) -> str:
    failed = [entry for entry in entries if not entry.is_exact]
    told = "".join(
        f"- {entry.date}, seed {entry.seed}: {EXPLAINED.get(entry.date, 'not understood yet.')}\n" for entry in failed
    )
    return f"\n## Causes of failed runs\n\n{told}" if told else ""


def _run(entry: Entry) -> str:
    wrong = {
        "lost": entry.lost,
        "duplicated": entry.duplicated,
        "torn": entry.torn,
        "out of order": entry.out_of_order,
        "contradictions in the offset log": entry.offset_log or 0,
    }
    said = [f"{number:,} {what}" for what, number in wrong.items() if number]
    if unknown := [what for what, number in wrong.items() if number is None]:
        said.append(f"not judged: {', '.join(unknown)}")
    elif not entry.judged:
        said.append("not judged")
    if entry.failure is not None:
        said.append(quoted(entry.failure))
    apart = f"; {entry.shown_aborted:,} aborted records returned by brokers" if entry.shown_aborted else ""
    return _cells(
        entry.date,
        entry.cluster,
        str(entry.seed),
        f"{entry.seconds:,} s",
        f"{entry.faults:,}",
        f"{entry.records:,}" if entry.judged or entry.records else "not known",
        f"{entry.transactions:,}" if entry.judged or entry.transactions else "not known",
        (f"**{'; '.join(said)}**" if said else "nothing lost, duplicated, torn or out of order") + apart,
        f"`{entry.commit[:10]}`{', changed' if entry.changed_since_commit else ''}",
    )


def _versions(entries: Sequence[Entry]) -> list[str]:
    said = (", ".join(f"{name} {number}" for name, number in sorted(entry.versions.items())) for entry in entries)
    return list(dict.fromkeys(said))


def quoted(failure: str) -> str:
    """As code, in a cell of a table."""
    in_a_cell = failure.replace("|", "/").replace("\n", " ").replace("`", "'")
    return f"`{in_a_cell}`"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(read(LEDGER) if LEDGER.exists() else []), encoding="utf-8")
