"""Judge the conditions of a gate. The evidence is about incarnations of ids, never about an id alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode
from app.kit.words import duration_s
from app.products.migrations.clause import ClauseFinding, closed, closed_unless, open_, unknown
from app.products.migrations.look import STABLE, Incarnation, InstanceNow, MigrationLook, MigrationMember, TaskNow
from app.products.migrations.migration import Migration, MigrationStep

STABLE_FOR = timedelta(seconds=5)
"""A rebalance between two checks changes the generation, so two equal checks exclude one."""
_UNREAD = "`__transaction_state` has not been read"


def seen_since(_: Migration, look: MigrationLook) -> ClauseFinding:
    """Require reads and heartbeats after the newest end of a lease; older ones may describe that lease."""
    if look.read_at is None:
        return unknown(_UNREAD)
    if look.changed_at is None:
        return open_("no lease of this run has ended")
    if look.read_at <= look.changed_at:
        return unknown("the journal was last read before the newest end of a lease")
    silent = [f"{task.name} sent no heartbeat since then" for task in look.tasks if task.heard_at <= look.changed_at]
    if silent:
        return unknown(silent[0])
    return open_("the journal was read, and every task sent a heartbeat, since the newest end of a lease")


def all_run(_: Migration, look: MigrationLook) -> ClauseFinding:
    missing: list[str] = []
    for ordinal in range(look.ordinals):
        one = look.instance(ordinal)
        if one is None:
            missing.append(f"instance {ordinal} has no lease")
        elif (sentence := _not_running(look, one)) is not None:
            missing.append(sentence)
    return closed_unless(missing, f"all {look.ordinals} run, with all of their tasks")


def group_is_stable(migration: Migration, look: MigrationLook) -> ClauseFinding:
    """Compare the checks of the last seconds: a group that rebalances constantly is Stable now and then."""
    seen = migration.group_seen
    if look.group is None or seen is None:
        return unknown("the group's coordinator has not reported its state")
    if look.group.state != STABLE:
        return closed(f"the group is {look.group.state}")
    lasts = seen.at - seen.since if seen.group.is_as(look.group) else timedelta()
    what = f"generation {look.group.generation} with {len(look.group.members)} members"
    if lasts < STABLE_FOR:
        return closed(f"{what} for {duration_s(lasts.total_seconds())} of {duration_s(STABLE_FOR.total_seconds())}")
    return open_(f"{what}, the same for {duration_s(lasts.total_seconds())}")


def members_known(_: Migration, look: MigrationLook) -> ClauseFinding:
    """Require that each member is a live task of a current lease; the other conditions know the mode of those.

    A process of an ended lease may be alive and in the group. It would get partitions and initialise their ids.
    """
    if look.group is None:
        return unknown("the group's coordinator has not reported its members")
    if look.changed_at is not None and look.group.asked_at <= look.changed_at:
        return unknown("its coordinator was asked before the newest end of a lease")
    missing = [sentence for one in look.group.members if (sentence := _not_known(look, one)) is not None]
    return closed_unless(missing, f"all {len(look.group.members)} are live tasks of current leases")


def no_instance_in(unwanted: Mode, look: MigrationLook) -> ClauseFinding:
    missing = [
        f"instance {one.ordinal} (lease {one.lease}) is {unwanted}, or on its way there"
        for one in look.instances
        if unwanted in one.modes
    ]
    return closed_unless(missing, f"none is {unwanted} any more, or on its way there")


def all_instances_in(wanted: Mode, look: MigrationLook) -> ClauseFinding:
    missing = [
        f"instance {one.ordinal} (lease {one.lease}) is {one.mode or 'in no known mode'}, its next lease {one.target}"
        for one in look.instances
        if one.modes - {wanted}
    ]
    missing += [f"instance {n} has no lease" for n in range(look.ordinals) if look.instance(n) is None]
    return closed_unless(missing, f"all {look.ordinals} are {wanted}")


def ids_taken_over(migration: Migration, look: MigrationLook) -> ClauseFinding:
    """Require that each input partition's id belongs to a task that sends its generation, or to Fenceline's fence.

    A higher epoch is not enough: a task in GROUP_ONLY may have raised it last. The owner of the newest incarnation has
    fenced all earlier ones.
    """
    if look.read_at is None:
        return unknown(_UNREAD)
    if not look.partitions:
        return unknown("the ids of the input partitions are not known")
    missing: list[str] = []
    for partition, now in _not_fenced(migration, look):
        holder = look.holder_of(now)
        if holder is None:
            missing.append(f"{partition}: no live task holds {now.words}")
        elif holder.mode is not Mode.GENERATION:
            missing.append(f"{partition}: {now.words} is held by {holder.name}, which is {holder.mode}")
        elif not holder.sends_generation:
            missing.append(f"{partition}: {holder.name} holds {now.words}, and reports no generation of its offsets")
    return closed_unless(missing, f"all {len(look.partitions)} ids are held by live tasks that send their generation")


def ids_held(migration: Migration, look: MigrationLook) -> ClauseFinding:
    """Require that each input partition's id belongs to a live task of any mode, or to Fenceline's fence."""
    if look.read_at is None:
        return unknown(_UNREAD)
    if not look.partitions:
        return unknown("the ids of the input partitions are not known")
    missing = [
        f"{partition}: no live task holds {now.words}"
        for partition, now in _not_fenced(migration, look)
        if look.holder_of(now) is None
    ]
    return closed_unless(missing, f"all {len(look.partitions)} ids are held by live tasks")


def ids_fenced(migration: Migration, look: MigrationLook, ids: Sequence[str]) -> ClauseFinding:
    """Require that Fenceline's fence is the newest initialisation of each of these ids."""
    if look.read_at is None:
        return unknown(_UNREAD)
    missing: list[str] = []
    for name in ids:
        now, fence = look.ids.get(name), migration.fence_of(name)
        if now is None:
            continue
        if fence is not None and look.read_at <= fence.at:
            return unknown(f"the journal has not been read since {name} was fenced")
        if fence is None or not now.is_at(fence.incarnation):
            missing.append(f"{name} is at epoch {now.producer_epoch}, which is not from Fenceline's fence")
        elif now.is_open:
            missing.append(f"a transaction is open under {name}")
    return closed_unless(missing, f"the newest incarnation of all {len(ids)} is Fenceline's fence")


def nothing_open_under(look: MigrationLook, ids: Iterable[str]) -> ClauseFinding:
    if look.read_at is None:
        return unknown(_UNREAD)
    names = list(ids)
    missing = [f"a transaction is open under {name}" for name in names if name in look.ids and look.ids[name].is_open]
    return closed_unless(missing, f"none is open under {len(names)} ids")


def readers_reach_the_end(migration: Migration, look: MigrationLook) -> ClauseFinding:
    """Require that the LSO has passed the end of the log as it was when consumers were first found blocked.

    Under load some transaction is always open, so the LSO never reaches the current end.
    """
    if look.held_back is None:
        return unknown("the brokers have not been asked")
    missing = [
        f"the LSO of {name} is {at:,}, below {migration.ends_seen.get(name, end):,}"
        for name, (at, end) in sorted(look.held_back.items())
        if at < migration.ends_seen.get(name, end)
    ]
    return closed_unless(missing, "the LSO reached the recorded end of every partition")


def audited(_: Migration, look: MigrationLook) -> ClauseFinding:
    audit = look.audit
    if audit is None:
        return unknown("the time of the migration has no audit")
    if not audit.audit_id:
        return unknown(audit.problem)
    if not audit.is_through:
        return unknown(f"audit {audit.audit_id} has not ended yet")
    if audit.lost or audit.duplicated or audit.dangling:
        dangling = f", dangling references {audit.dangling:,}" if audit.dangling else ""
        return closed(f"audit {audit.audit_id}: lost {audit.lost:,}, duplicated {audit.duplicated:,}{dangling}")
    if audit.problem or not audit.expected:
        return unknown(f"audit {audit.audit_id}: {audit.problem or 'no output was expected in its window'}")
    return open_(f"audit {audit.audit_id}: lost 0, duplicated 0 of {audit.expected:,} expected records")


def moved(_: Migration, look: MigrationLook, step: MigrationStep) -> ClauseFinding:
    one = look.instance(step.ordinal or 0)
    if one is None or one.lease <= (step.lease or 0):
        return closed(f"instance {step.ordinal} has no lease after {step.lease} yet")
    if one.mode is not step.to:
        return closed(f"lease {one.lease} is {one.mode or 'in no known mode'}, not {step.to}")
    sentence = _not_running(look, one)
    return (
        open_(f"lease {one.lease} runs as {step.to}, with all of its tasks") if sentence is None else closed(sentence)
    )


def drained(migration: Migration, look: MigrationLook, step: MigrationStep) -> ClauseFinding:
    """Require that no transaction of the replaced leases can still be open.

    An id passes if it is idle, or open at a higher epoch than they held and a live task reports that epoch. The
    higher epoch has ended the earlier transaction. The owner of an idle incarnation need not be known here. A task that
    was killed, or revoked a partition, before its next heartbeat leaves an incarnation without a report. An unused id
    is not initialised again. The gates require of every id that no frozen producer can write under it.
    """
    if look.read_at is None:
        return unknown(_UNREAD)
    if look.changed_at is not None and look.read_at <= look.changed_at:
        return unknown("the journal was last read before the lease ended")
    current = look.instance(step.ordinal or 0)
    ended = [
        one for one in migration.held if one.ordinal == step.ordinal and (current is None or one.lease < current.lease)
    ]
    missing = [
        sentence for one in ended for held in one.ids if (sentence := _undrained(migration, look, held)) is not None
    ]
    return closed_unless(missing, f"nothing is open of {sum(len(one.ids) for one in ended)} ids that it held")


def step_fenced(migration: Migration, look: MigrationLook, step: MigrationStep) -> ClauseFinding:
    done = {one.incarnation.transactional_id for one in migration.fenced if one.step == step.number}
    missing = [
        f"{name} is not fenced: {look.refused_fences[name]}" if name in look.refused_fences else f"{name} is not fenced"
        for name in step.ids
        if name not in done
    ]
    return closed_unless(missing, f"all {len(step.ids)} were initialised by the server")


def partition_ids(migration: Migration, look: MigrationLook) -> tuple[str, ...]:
    """Every id of a producer for one partition: of the partitions now, and those that some lease held."""
    held = {one.transactional_id for lease in migration.held if lease.mode is not Mode.V2 for one in lease.ids}
    return tuple(sorted(held | set(look.partitions.values())))


def task_ids(migration: Migration, look: MigrationLook) -> tuple[str, ...]:
    """Every id of a producer for one task."""
    held = {one.transactional_id for lease in migration.held if lease.mode is Mode.V2 for one in lease.ids}
    return tuple(sorted(held | set(look.task_ids)))


def _undrained(migration: Migration, look: MigrationLook, held: Incarnation) -> str | None:
    now = look.ids.get(held.transactional_id)
    if now is None:
        # The id has expired at its coordinator, which rejects its older producers.
        return None
    if not now.is_open:
        return None
    if now.is_at(held):
        return f"a transaction of {held.words} is open"
    newest = Incarnation(held.transactional_id, now.producer_id, now.producer_epoch)
    # Ended leases count too: the transaction that each left open is judged with that lease, not with earlier ones.
    known = [one for lease in migration.held for one in lease.ids if one.transactional_id == held.transactional_id]
    if newest in known:
        return None
    if _is_our_fence(migration, newest) or newest in look.fenced_by_hand or look.holder_of(newest) is not None:
        return None
    return f"{held.words} was held, and a transaction of {newest.words} is open, which no known task holds"


def _not_known(look: MigrationLook, member: MigrationMember) -> str | None:
    if member.task is None:
        return f"{member.name} is a member, and no task of Fenceline"
    task = look.task_of(member)
    if task is None:
        mode = "" if member.mode is None else f" ({member.mode})"
        return f"{member.name}{mode} is a member, and no live task of a current lease"
    if task.mode is Mode.GENERATION and task.generation is not None and not task.sends_generation:
        return f"{task.name} ({member.name}) is {task.mode}, and commits offsets without its generation"
    return None


def _not_fenced(migration: Migration, look: MigrationLook) -> Iterator[tuple[str, Incarnation]]:
    """Yield the newest incarnation of each input partition's id that is not from Fenceline's fence."""
    for partition, name in sorted(look.partitions.items()):
        now = look.now_of(name)
        if now is not None and not _is_our_fence(migration, now) and now not in look.fenced_by_hand:
            yield partition, now


def _is_our_fence(migration: Migration, now: Incarnation) -> bool:
    fence = migration.fence_of(now.transactional_id)
    return fence is not None and fence.incarnation == now


def _not_running(look: MigrationLook, one: InstanceNow) -> str | None:
    if one.state is not InstanceState.RUNNING:
        return f"instance {one.ordinal} (lease {one.lease}) is {one.state}"
    live = [task for task in _tasks_of(look, one) if task.is_live]
    if len(live) < look.tasks_per_instance:
        return f"{len(live)} of {look.tasks_per_instance} tasks of instance {one.ordinal} are known to run"
    return None


def _tasks_of(look: MigrationLook, one: InstanceNow) -> list[TaskNow]:
    return [task for task in look.tasks if (task.ordinal, task.lease) == (one.ordinal, one.lease)]
