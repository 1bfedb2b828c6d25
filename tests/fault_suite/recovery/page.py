"""docs/standstill.md from what was measured: `python -m tests.fault_suite.recovery.page`. No figure is typed in."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.fault_suite.recovery.goals import Report, table
from tests.fault_suite.recovery.static_members import RESULTS as STATIC
from tests.fault_suite.recovery.static_members import Membership, Tried

RESULTS = Path(__file__).parents[2] / "results" / "standstill.json"
PAGE = Path(__file__).parents[3] / "docs" / "standstill.md"

_BEGINNING = """# How long records stand still

`make standstill` runs a pipeline of two instances on three brokers and a Spark cluster under a real server, and takes
one instance from it, once for each row. A stand-still is the longest time in which nothing of some source partition
came out to a reader under `read_committed`, from before the loss until the instance was back and records of every
partition came again. At the end every record must have come out once.

*Killed* is SIGKILL to all of its processes at once: driver, executor, PySpark's daemon and worker, so that nobody
commits, leaves the group or says a word. *Server away*: it was killed just before, and comes back when records flow
again.

"""
_BOUNDS = """
What bounds it: the session of the dead member (its partitions are given to somebody else), and where its transaction
had sent offsets, the transaction's timeout and the coordinator's next look, unless somebody ends it before. After an
executor's kill the bound is the session, or 5 s after Spark's new attempt has begun, whichever is later.
"""
_NOTHING = "Nothing has been measured yet.\n"
_STATIC = """
## Static membership

With a `group.instance.id` a member that comes back within its session keeps its partitions without a rebalance. It
was tried with two tasks on one broker, sessions of {session_s:g} s, by `python -m
tests.fault_suite.recovery.static_members`:

"""
_STATIC_END = """
The loop does not use it. Under KIP-848 a member that was killed is refused, fatally, while the session of its
predecessor lasts; a classic one gains where it is started again at once on the same host. Who drains gives its
partitions away at once either way, and every planned restart, rolling bounce and scaling down is a drain.
"""


def page(report: Report | None, static: list[Tried]) -> str:
    return _BEGINNING + (_NOTHING if report is None else _measured(report)) + _tried(static)


def _measured(report: Report) -> str:
    timeouts = report.timeouts
    versions = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    measured = "; ".join(sorted({f"`{one.commit[:10]}` on {one.date[:10]}" for one in report.measured}))
    return (
        table(report.measured)
        + _BOUNDS
        + f"\nSession {timeouts.session_s:g} s, transaction timeout {timeouts.transaction_s:g} s, looks of the "
        f"coordinator every {timeouts.cleanup_s:g} s, {report.records_per_s:,} records a second. "
        f"Measured at {measured}; {versions}.\n"
    )


def _tried(static: list[Tried]) -> str:
    if not static:
        return ""
    found = {(one.end, one.protocol, one.membership): one for one in static}
    rows = [
        f"| {end} | {protocol} | "
        + " | ".join(_figure(found.get((end, protocol, membership))) for membership in Membership)
        + " |"
        for end, protocol in dict.fromkeys((one.end, one.protocol) for one in static)
    ]
    heading = f"| one of two tasks | group protocol | {' | '.join(Membership)} |\n|---|---|---|---|\n"
    return _STATIC.format(session_s=static[0].session_s) + heading + "\n".join(rows) + "\n" + _STATIC_END


def _figure(one: Tried | None) -> str:
    if one is None:
        return "not tried"
    return f"{one.standstill_s:.1f} s" + (f"; it does not come back: {one.refused}" if one.refused else "")


def write() -> None:
    """The page anew, from the files of results."""
    report = msgspec.json.decode(RESULTS.read_bytes(), type=Report) if RESULTS.exists() else None
    static = msgspec.json.decode(STATIC.read_bytes(), type=list[Tried]) if STATIC.exists() else []
    PAGE.write_text(page(report, static), encoding="utf-8")


if __name__ == "__main__":
    write()
