"""docs/faults.md from the ledger: `python -m tests.fault_suite.page`. No figure is typed in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.domain.pipelines.pipeline import PipelineDefinition
from app.embedded.broker_settings import SETTINGS_FOR_ONE_MACHINE
from tests.fault_suite.freeze_points import Point
from tests.fault_suite.freezes import Outlasted, place_of
from tests.fault_suite.ledger import LEDGER, Entry, read, total
from tests.fault_suite.plan import Kind
from tests.fault_suite.proxied_cluster import SETTINGS
from tests.fault_suite.run import FLOWS_WITHIN_S
from tests.support.pipelines import SESSION_TIMEOUT_MS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

_BEGINNING = """# Faults survived

What runs of `make faults` have shown, all of them: a run that failed is entered like the others. Faults are drawn from
a seed, records are judged from the brokers' logs by a verifier that shares no code with the loop
([ADR](adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)). This page is made of the ledger,
`tests/results/faults.jsonl`, by `make numbers`; what the same runs see when the loop lacks one of its protections is in
[mutations.md](mutations.md).

"""
_SHOWN_ABORTED = """
Aborted records that brokers have shown are counted apart, and do not fail a run: a broker that was away can note for
transactions that it catches up with what hides later ones from its readers under `read_committed`, and when it leads,
gives them out. No client, neither the loop nor who reads its output, can tell or do anything about it
([client-facts.md](client-facts.md)). A record counts here, and not as duplicated, torn or uncommitted, only where
the log says that it was aborted and the index of a broker itself proves that it is hidden
([ADR](adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)); all others are judged as ever.
"""
_A_RUN = f"""
## A run

`make faults SEED=N MINUTES=M` starts a cluster, feeds ids into a pipeline, does one fault after the other, waits for
rest, and judges. The n-th fault depends on the seed and the stage only. A seed repeats the faults in their order, but
not their interleaving with brokers, clients and kernel.

- Every kind comes once before any comes twice. Half of the faults that last are shorter than any timeout. The others
  outlast the session, or session and transaction timeout.
- After a third of the faults every partition must have outputs within {FLOWS_WITHIN_S:.0f} s. The others meet a
  pipeline that recovers.
- A fault that came too late is logged as not done, and is not counted.
- At rest no transaction is open, each LSO is the high watermark, and the group's offsets are the ends of the source. A
  reader that followed the sink was given what a new reader is given.
- `GUARANTEE` chooses `exactly_once_v2` or `exactly_once`. `at_least_once` is the negative control: it must fail, and is
  not entered.
- `ARGS` takes `--brokers 1`, `--fencing group_only`, `--only "driver killed" "disk full"` and `--keep`, among others.
- A failed run leaves a folder below `build/faults`: the log of faults, the logs of workers and brokers, both journals,
  and what lies around the first wrong record of each kind.
"""
_BY_FAULT = """
## By fault

A stand-still is a time without an output of one source partition. It counts for the fault that began in it, or else for
the last one before it; one in which several began counts for all of them together only. The suite's timeouts: """
_FREEZES = """
## Workers that stood still

A worker is stopped (SIGSTOP) at a point of the loop, or anywhere, and goes on afterwards: past its session it is no
member any more, past the transaction's timeout and the coordinator's next look no producer. """
_NOTHING = "Nothing is in the ledger yet.\n"

_SESSION = "the member's session timeout"
_TRANSACTION = "the transaction timeout and the coordinator's next look"
_REQUESTS = "as long as it lasts, then the client's retry; past the session, a rebalance"
_FROZEN = f"as long as it lasts, at most {_SESSION}, and {_TRANSACTION} where its offsets are pending"
_NOT_IN_THE_PATH = "nothing: records do not pass there"
_BOUNDS: dict[Kind, str] = {
    Kind.WORKER_KILLED: f"{_SESSION}, unless its next attempt comes earlier",
    Kind.OFFSETS_DELETED: "a drain of all, a start that is refused, the offsets set again, and a start of all",
    Kind.WORKER_TERMINATED: "a drain and a rebalance",
    Kind.WORKER_FROZEN: _FROZEN,
    Kind.WORKER_REPLACED: f"{_SESSION}: the next attempt's init ends its transaction, not its membership",
    Kind.WORKER_DOUBLED: "a rebalance; the next attempt's init ends the first one's transaction",
    Kind.INSTANCES_SCALED: "a rebalance",
    Kind.PARTITION_ADDED: "the client's next look at the topic, and a rebalance",
    Kind.BROKER_KILLED: "until it is back or its leaders have moved: the brokers' session, then an election",
    Kind.BROKER_PAUSED: "as long as it lasts, or until its leaders have moved: the brokers' session, then an election",
    Kind.BROKERS_ROLLED: "a controlled shutdown for each: an election, and the coordinators load their partitions",
    Kind.COORDINATORS_MOVED: "an election, and the coordinators load their partitions",
    Kind.PREPARED_MOVED: "an election, and the new coordinator loads its partition and has the markers written",
    Kind.CONNECTIONS_CUT: "the client's reconnect",
    Kind.BROKER_UNREACHABLE: _REQUESTS,
    Kind.STALLED_TO_BROKER: _REQUESTS,
    Kind.STALLED_TO_CLIENT: _REQUESTS,
    Kind.SLOW: "the backlog that the slow time leaves",
    Kind.DELAYED: "the delay, several times a commit",
    Kind.OUTPUT_TOO_SLOW: f"{_TRANSACTION} twice, until checkpoints are small enough; then they come at the slow speed",
    Kind.COMMIT_REQUEST_LOST: "the silence on the connection, then the client sends it again",
    Kind.COMMIT_ANSWER_LOST: "the silence on the connection, then the client sends it again",
    Kind.EXECUTOR_KILLED: f"{_SESSION}, or Spark's new attempt, whichever comes earlier",
    Kind.EXECUTOR_TERMINATED: "a drain and a rebalance, or Spark's new attempt",
    Kind.EXECUTOR_FROZEN: _FROZEN,
    Kind.WORKER_ORPHANED: "it drains when its daemon is gone: a rebalance, or Spark's new attempt",
    Kind.DRIVER_KILLED: f"{_SESSION}; then the other instance alone, until the server has started another driver",
    Kind.DRIVER_TERMINATED: "a drain and a rebalance",
    Kind.INSTANCE_KILLED: f"{_SESSION}, and {_TRANSACTION} where its offsets are pending",
    Kind.ORDINAL_HELD_TWICE: "the fencing of one of the two, and a rebalance",
    Kind.SPARK_WORKER_KILLED: f"{_SESSION}, or Spark's new attempt on the other worker, whichever comes earlier",
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
        "two things. Partitions were silent because a consumer had given up asking where they begin (librdkafka); its "
        "attempt ends now, and is started again. And records came out twice because the single broker, killed or "
        "rolled, noted transactions as complete without their markers while its partitions had no leader (Kafka); that "
        "takes the loss of all replicas at once, and is not done to a single broker any more. Both are in "
        "[client-facts.md](client-facts.md)."
    ),
    "2026-11-23T06:30:25+00:00": (
        "the suite itself: with a producer for each partition nothing fences an attempt that was replaced while it "
        "lived, so that there were as many members as partitions, and whoever joined took nothing from anybody. Such "
        "an attempt drains when the next fault begins "
        "([ADR](adr/0027-judge-fault-runs-and-mutations-from-broker-logs.md)); the same seed is exact since."
    ),
    "2026-11-23T07:15:08+00:00": (
        "a machine on which more than a hundred threads waited for two cores. The executor that Spark launched in "
        "place of a killed one took longer than the 60 s after which a driver without executors ends, so the server "
        "started another application; the suite waited for the next attempt in the first one. What was judged is exact."
    ),
    "2026-11-26T11:01:15+00:00": (
        "a machine on which twenty processes waited for two cores. The suite ran at the lowest priority: the first "
        "output took longer than 60 s, and no fault was begun. The same seed is exact on one broker, ten minutes later."
    ),
}
"""By date, written by whoever has found out."""


def page(entries: Sequence[Entry]) -> str:
    return _BEGINNING + (
        "".join([_sum(entries), _A_RUN, _kinds(entries), _freezes(entries), _runs(entries)]) if entries else _NOTHING
    )


def _sum(entries: Sequence[Entry]) -> str:
    found = total(entries)
    figures = {
        "runs": found.runs,
        "runs that failed": found.failed,
        "of them not wholly judged: of these only what was wrong counts below": found.unjudged,
        "faults": found.faults,
        "records": found.records,
        "transactions": found.transactions,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "torn": found.torn,
        "out of order": found.out_of_order,
        f"contradictions in the offset log, of {found.asked} runs that asked it": found.offset_log,
    }
    if found.looked:
        row = f"aborted records that brokers have shown, of {found.looked} runs that looked for it"
        figures[row] = found.shown_aborted
    since, until = min(entry.date for entry in entries), max(entry.date for entry in entries)
    return (
        "| all runs | |\n|---|---|\n"
        + "".join(_cells(name, f"{number:,}") for name, number in figures.items())
        + _cells("longest stand-still of a partition", f"{found.longest_standstill_s:g} s")
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
        "between the coordinator's looks for what is past it": int(
            SETTINGS["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
        ),
        "session of the brokers": int(SETTINGS_FOR_ONE_MACHINE["broker.session.timeout.ms"]),
    }
    return (
        _BY_FAULT
        + ", ".join(f"{name} {ms / 1000:g} s" for name, ms in timeouts.items())
        + ".\n\n| fault | how often | longest stand-still | what bounds it |\n|---|---|---|---|\n"
        + "".join(
            _cells(kind, f"{found.faults:,}", _standstill(found.longest_standstill_s), _BOUNDS.get(kind, "not known"))
            for kind, found in total(entries).by_kind.items()
        )
    )


def _freezes(entries: Sequence[Entry]) -> str:
    noting = [entry for entry in entries if entry.judged and entry.freezes is not None]
    if not noting:
        return f"{_FREEZES}No run has noted it yet.\n"
    found = total(noting).freezes
    columns = [f"outlasted {outlasted}" for outlasted in Outlasted]
    return (
        f"{_FREEZES}Of {len(noting)} of {len(entries)} runs; the others did not note it.\n\n"
        + _cells("where", *columns)
        + f"|---{'|---' * len(columns)}|\n"
        + "".join(
            _cells(place, *(f"{found.get(place, {}).get(outlasted, 0):,}" for outlasted in Outlasted))
            for place in map(place_of, (*Point, None))
        )
    )


def _standstill(longest_s: float) -> str:
    return f"{longest_s:g} s" if longest_s else "none of its own"


def _runs(entries: Sequence[Entry]) -> str:
    return (
        "\n## Run by run\n\n"
        "| date | cluster | seed | took | faults | records | transactions | verdict | commit |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "".join(map(_run, entries)) + _explained(entries)
    )


def _explained(entries: Sequence[Entry]) -> str:
    failed = [entry for entry in entries if not entry.is_exact]
    told = "".join(
        f"- {entry.date}, seed {entry.seed}: {EXPLAINED.get(entry.date, 'not understood yet.')}\n" for entry in failed
    )
    return f"\n## What the failed runs were\n\n{told}" if told else ""


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
        said.append(entry.failure.replace("|", "/").replace("\n", " "))
    apart = f"; {entry.shown_aborted:,} aborted records shown by brokers" if entry.shown_aborted else ""
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


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(read(LEDGER) if LEDGER.exists() else []), encoding="utf-8")
