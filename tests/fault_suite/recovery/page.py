"""docs/measured/standstill.md from measured results: `python -m tests.fault_suite.recovery.page`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.fault_suite.recovery.goals import Report, table
from tests.fault_suite.recovery.static_members import RESULTS as STATIC
from tests.fault_suite.recovery.static_members import Membership, Tried

RESULTS = Path(__file__).parents[2] / "results" / "standstill.json"
PAGE = Path(__file__).parents[3] / "docs" / "measured" / "standstill.md"

_BEGINNING = """# Recovery time

For operators: the longest time without committed records after the loss of one of two instances, and its bounds.

`make standstill` runs a pipeline of two instances under a server, on three brokers and a Spark cluster, and takes away
one instance for each row. The recovery time is the longest time without an output of some source partition, for a
consumer at `read_committed`. It is measured from before the loss until the instance is back and every partition has
outputs. At the end each record must be in the sink once.

*Killed* is SIGKILL to driver, executor, PySpark's daemon and worker at once: no process commits or leaves the group.
*Its executor killed* is SIGKILL to the executor's Java alone. Its Python worker lives on, aborts and leaves the group.
*Server away*: the server was killed just before, and returns with the records.

"""
_BOUNDS = """
After a kill a server ends the transaction and removes the member. So the bound is 2 s in a classic group and 4 s under
KIP-848. Without a server it is the session timeout of the dead member. If its transaction had sent offsets, it is also
the transaction timeout and the coordinator's next check. After an executor's kill the worker needs neither server nor
driver: the bound is 3 s in a classic group and 5 s under KIP-848.
"""
_NOTHING = "Nothing has been measured yet.\n"
_STATIC = """
## Static membership

A static member (`group.instance.id`) that returns within its session keeps its partitions without a rebalance.
Measured with two tasks on one broker and sessions of {session_s:g} s, by
`python -m tests.fault_suite.recovery.static_members`:

"""
_STATIC_END = """
The loop does not use it. Under KIP-848 a killed member is refused with a fatal error until its former session ends. A
classic member gains only if it is started at once on the same host. A drain releases its partitions at once either way,
and every planned restart, bounce and reduction is a drain.
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
        + f"\nSession {timeouts.session_s:g} s, transaction timeout {timeouts.transaction_s:g} s, checks of "
        f"the coordinator every {timeouts.cleanup_s:g} s, {report.records_per_s:,} records a second. "
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
    return f"{one.standstill_s:.1f} s" + (f"; does not return: `{one.refused}`" if one.refused else "")


def write() -> None:
    """Make the page again, from the files of results."""
    report = msgspec.json.decode(RESULTS.read_bytes(), type=Report) if RESULTS.exists() else None
    static = msgspec.json.decode(STATIC.read_bytes(), type=list[Tried]) if STATIC.exists() else []
    PAGE.write_text(page(report, static), encoding="utf-8")


if __name__ == "__main__":
    write()
