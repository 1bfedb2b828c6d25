"""The conditions of the preflight. They change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.core.runs.mode import Mode
from app.kit.words import duration
from app.products.migrations import evidence
from app.products.migrations.clause import Clause, ClauseFinding, closed, closed_unless, open_, unknown
from app.products.migrations.look import MigrationLook, PreflightFacts
from app.products.migrations.migration import Migration

NEEDED_VERSION = (2, 5)
LONGEST_TIMEOUT_MS = 10_000
"""Both of them by KIP-447, "Shrink transactional.timeout" and "Shrink abort timeout transaction scheduler interval"."""

_Judge = Callable[[Migration, MigrationLook, PreflightFacts], ClauseFinding]


def _of_facts(judge: _Judge) -> Callable[[Migration, MigrationLook], ClauseFinding]:
    def judged(migration: Migration, look: MigrationLook) -> ClauseFinding:
        return unknown("not checked yet") if look.preflight is None else judge(migration, look, look.preflight)

    return judged


def _brokers(_: Migration, __: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    if facts.brokers_problem:
        return unknown(facts.brokers_problem)
    if not facts.versions:
        return unknown("no broker has reported its version")
    old = [
        f"broker {name} has version {_dotted(version)}"
        for name, version in facts.versions.items()
        if version and version < NEEDED_VERSION
    ]
    if old:
        return closed(
            f"{'; '.join(old)}: brokers before 2.5 accept offsets of stale members, and return committed offsets "
            "while a transaction has newer ones pending (KIP-447)"
        )
    silent = [name for name, version in facts.versions.items() if version is None]
    if silent:
        return unknown(f"broker {silent[0]} has not reported its version")
    oldest = min(version for version in facts.versions.values() if version is not None)
    those = "the broker has" if len(facts.versions) == 1 else f"all {len(facts.versions)} brokers have"
    return open_(f"{those} version {_dotted(oldest)} or later; {facts.features}")


def _rights(_: Migration, __: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    if facts.rights_refused is None:
        return unknown("the coordinators have not answered")
    if facts.rights_refused:
        return closed_unless(facts.rights_refused, "")
    if facts.rights_unknown:
        return unknown(facts.rights_unknown)
    return open_("the coordinators allow Fenceline to describe every id and to write under it")


def _no_hanging(_: Migration, __: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    if facts.hanging:
        return closed_unless(facts.hanging, "")
    return unknown(facts.hanging_unknown) if facts.hanging_unknown else open_("none found")


def _no_collision(migration: Migration, look: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    missing = list(facts.owned_by_others)
    for name in (*evidence.partition_ids(migration, look), *evidence.task_ids(migration, look)):
        now = look.now_of(name)
        if now is not None and look.ids[name].is_open and look.holder_of(now) is None:
            missing.append(
                f"a transaction is open under {name} (epoch {now.producer_epoch}), by a client outside Fenceline"
            )
    return closed_unless(missing, "this pipeline owns every id, and no other client writes under one")


def _timeout(_: Migration, __: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    timeout_ms = facts.transaction_timeout_ms
    if timeout_ms <= LONGEST_TIMEOUT_MS:
        return open_(f"it is {duration(timeout_ms)}")
    return closed(f"it is {duration(timeout_ms)}: a step may wait that long for open transactions of a killed instance")


def _sweep(_: Migration, __: MigrationLook, facts: PreflightFacts) -> ClauseFinding:
    if facts.abort_sweep_ms is None:
        return unknown("the brokers have not reported it")
    if facts.abort_sweep_ms <= LONGEST_TIMEOUT_MS:
        return open_(f"they check every {duration(facts.abort_sweep_ms)}")
    return closed(
        f"they check only every {duration(facts.abort_sweep_ms)}: a transaction may stay open that much longer"
    )


def _modes(migration: Migration, look: MigrationLook) -> ClauseFinding:
    missing = [f"instance {one.ordinal} is in no known mode" for one in look.instances if one.mode is None]
    missing += [f"instance {n} has no lease" for n in range(look.ordinals) if look.instance(n) is None]
    modes = {one.mode for one in look.instances}
    if Mode.GROUP_ONLY in modes and Mode.V2 in modes:
        missing.append(f"{Mode.GROUP_ONLY} and {Mode.V2} run at the same time")
    if not missing and modes == {migration.goal}:
        return closed(f"every instance is {migration.goal} already")
    return closed_unless(missing, ", ".join(f"instance {one.ordinal} is {one.mode}" for one in look.instances))


def _offsets(migration: Migration, _: MigrationLook) -> ClauseFinding:
    if not migration.offsets:
        return closed("the group's committed offsets could not be recorded")
    return open_(f"of {len(migration.offsets)} partitions, as of the start")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


PREFLIGHT: Sequence[Clause] = (
    Clause(
        name="brokers",
        asks="Every broker has version 2.5 or later.",
        judge=_of_facts(_brokers),
    ),
    Clause(
        name="rights",
        asks="The server may describe every id that it will fence, and write under it.",
        judge=_of_facts(_rights),
    ),
    Clause(name="no_hanging", asks="No transaction is hanging.", judge=_of_facts(_no_hanging)),
    Clause(
        name="no_collision",
        asks="No other pipeline owns one of the ids, and no unknown client writes under one.",
        judge=_of_facts(_no_collision),
    ),
    Clause(
        name="transaction_timeout",
        asks="The transaction timeout is at most 10 s.",
        judge=_of_facts(_timeout),
        is_waivable=True,
    ),
    Clause(
        name="abort_sweep",
        asks="The brokers check for timed-out transactions at least every 10 s.",
        judge=_of_facts(_sweep),
        is_waivable=True,
    ),
    Clause(name="modes_known", asks="Every instance's mode is known.", judge=_modes),
    Clause(name="all_run", asks="Every instance runs, and all of its tasks send heartbeats.", judge=evidence.all_run),
    Clause(
        name="group_stable",
        asks="Checks over 5 s find the same generation and members, in state Stable.",
        judge=evidence.group_is_stable,
    ),
    Clause(
        name="no_strangers",
        asks="Every member of the group is a live task of the pipeline.",
        judge=evidence.members_known,
    ),
    Clause(name="offsets", asks="The group's committed offsets are recorded.", judge=_offsets),
)
