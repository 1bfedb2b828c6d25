"""The expectations of a drill, from the definition that the pipeline runs. Nothing is measured."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, PipelineDefinition, ProcessingGuarantee
from app.products.drills.drill import DrillKind, DrillPlan, Expectation

MARGIN_S = 3.0
"""Allowance for rebalances, polls of the client, and the interval of observation."""
_COMMITS_IN_MARGIN_S = 1.0
"""MARGIN_S includes two commit intervals of up to this sum."""
ABORT_SWEEP_S = 10.0
"""Default of `transaction.abort.timed.out.transaction.cleanup.interval.ms`, if brokers do not report it."""
HEARTBEAT_S = 3.0
"""Heartbeat interval of group members; the session timeout counts from the last heartbeat."""
RETURNS_WITHIN_S = 30.0
"""Time from the thaw or the kill until all tasks run: Spark's retry, a producer's init, a rebalance."""


class BrokerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the brokers; None if they do not report them.

    session_s: session timeout of a KIP-848 group without a setting of its own.
    abort_sweep_s: interval of the check for timed-out transactions.
    """

    session_s: float | None = None
    abort_sweep_s: float | None = None


UNKNOWN = BrokerTimes()


def plan_of(
    definition: PipelineDefinition,
    kind: DrillKind,
    *,
    for_s: float,
    cluster: str,
    others: int,
    own: int,
    times: BrokerTimes = UNKNOWN,
) -> DrillPlan:
    """Return the plan of a drill of a pipeline with tasks (query_planning.py has those of queries).

    own, others: numbers of drilled tasks, and of other tasks of the group.
    """
    bound_s = _stands_still_s(definition, kind, for_s=for_s, others=others, times=times)
    return DrillPlan(
        for_s=for_s,
        group=definition.group_id,
        cluster=cluster,
        tasks=own + others,
        stands_still_s=bound_s,
        commits_every_s=definition.commits_every_ms / 1000,
        topics=definition.source_topics,
        expected=tuple(_expected(definition, kind, for_s=for_s, others=others, bound_s=bound_s, times=times)),
    )


def _margin_s(definition: PipelineDefinition) -> float:
    """Return MARGIN_S plus the time for commits.

    A commit may be due at the start of the drill. The next one follows an interval after the recovery, with files after
    their upload.
    """
    uploads_ms = 0 if definition.files is None else definition.files.upload_timeout_ms
    commits_s = (2 * definition.commits_every_ms + uploads_ms) / 1000
    return MARGIN_S + max(0.0, commits_s - _COMMITS_IN_MARGIN_S)


def _session_s(definition: PipelineDefinition, times: BrokerTimes) -> float | None:
    """Return the session timeout, which is a setting of the brokers with KIP-848."""
    is_theirs = definition.group_protocol is GroupProtocol.CONSUMER
    return times.session_s if is_theirs else definition.session_timeout_ms / 1000


def _session_words(definition: PipelineDefinition, session_s: float | None) -> str:
    if definition.group_protocol is not GroupProtocol.CONSUMER:
        return f"session timeout {session_s:g} s"
    if session_s is None:
        return "the brokers' session timeout"
    return f"the brokers' session timeout of {session_s:g} s, unless the group has its own"


def _sweep_s(times: BrokerTimes) -> float:
    return ABORT_SWEEP_S if times.abort_sweep_s is None else times.abort_sweep_s


def _abort_s(definition: PipelineDefinition, times: BrokerTimes) -> float | None:
    """Return the time until the coordinator aborts an open transaction; None without transactions."""
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return None
    return definition.transaction_timeout_ms / 1000 + _sweep_s(times)


def _new_owner_waits(definition: PipelineDefinition) -> bool:
    """Return true if a new owner has another id, so that pending offsets last until the transaction timeout."""
    return definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2


def _stands_still_s(
    definition: PipelineDefinition, kind: DrillKind, *, for_s: float, others: int, times: BrokerTimes
) -> float | None:
    session_s, abort_s, margin_s = _session_s(definition, times), _abort_s(definition, times), _margin_s(definition)
    if kind is DrillKind.FREEZE_SERVER:
        return margin_s
    if session_s is None:
        return None
    if kind is DrillKind.KILL_INSTANCE:
        # The next attempt initialises the same ids, which aborts open transactions. Only the session timeout counts.
        return session_s + margin_s
    if for_s < session_s:
        return for_s + margin_s
    if not others:
        return for_s + RETURNS_WITHIN_S
    taken_s = max(session_s, abort_s) if abort_s is not None and _new_owner_waits(definition) else session_s
    return min(taken_s, max(for_s, session_s)) + margin_s


def _bounded_by(
    definition: PipelineDefinition, kind: DrillKind, *, for_s: float, others: int, times: BrokerTimes
) -> str:
    """Describe the bound of the recovery time, for the same cases as `_stands_still_s`."""
    session_s, abort_s = _session_s(definition, times), _abort_s(definition, times)
    if session_s is None or kind is DrillKind.KILL_INSTANCE:
        return _session_words(definition, session_s)
    if for_s < session_s or not others:
        return "the thaw"
    if abort_s is None or not _new_owner_waits(definition) or abort_s <= session_s:
        return _session_words(definition, session_s)
    return (
        "the brokers' abort of the open transaction" if abort_s <= for_s else "the thaw, which comes before the abort"
    )


def _expected(
    definition: PipelineDefinition,
    kind: DrillKind,
    *,
    for_s: float,
    others: int,
    bound_s: float | None,
    times: BrokerTimes,
) -> list[Expectation]:
    if kind is DrillKind.FREEZE_SERVER:
        return without_server(for_s, bound_s)
    session_s, abort_s = _session_s(definition, times), _abort_s(definition, times)
    session = _session_words(definition, session_s)
    expected: list[Expectation] = []
    if kind is DrillKind.KILL_INSTANCE:
        expected += [
            Expectation(
                sentence="Spark starts the next attempt of each killed task",
                within_s=RETURNS_WITHIN_S,
                because="Spark retries failed tasks",
            ),
            *_taken_over(definition),
            Expectation(
                sentence="the group assigns the dead member's partitions to live members, in a new generation",
                within_s=_plus(session_s, MARGIN_S),
                because=session,
            ),
        ]
    elif session_s is not None and for_s < session_s:
        expected.append(
            Expectation(
                sentence="no rebalance: the partitions wait for the thaw"
                if for_s <= session_s - HEARTBEAT_S
                else f"perhaps a rebalance: the last heartbeat was up to {HEARTBEAT_S:g} s before the freeze",
                within_s=for_s + MARGIN_S,
                because=f"{for_s:g} s, shorter than {session}",
            )
        )
    else:
        whom = "to other members" if others else "to none: the group has no other task, so they wait for the thaw"
        expected.append(
            Expectation(
                sentence=f"the group reassigns its partitions in a new generation, {whom}",
                within_s=_plus(session_s, MARGIN_S),
                because=session,
            )
        )
        if abort_s is not None and _new_owner_waits(definition):
            expected.append(
                Expectation(
                    sentence="the brokers abort its open transaction, if any; until then consumers of the sink are "
                    "blocked, and so is the new owner of partitions with pending offsets",
                    within_s=abort_s,
                    because=f"transaction timeout {definition.transaction_timeout_ms / 1000:g} s, checked every "
                    f"{_sweep_s(times):g} s",
                )
            )
        expected.append(Expectation(sentence=_after_the_thaw(definition), within_s=for_s + RETURNS_WITHIN_S))
    expected.append(
        Expectation(
            sentence="every partition has commits again",
            within_s=bound_s,
            because=_bounded_by(definition, kind, for_s=for_s, others=others, times=times),
        )
    )
    return expected


def _taken_over(definition: PipelineDefinition) -> list[Expectation]:
    if definition.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2:
        return []
    return [
        Expectation(
            sentence="it initialises the same transactional id: a higher epoch, and the open transaction is aborted",
            within_s=RETURNS_WITHIN_S,
            because="ids belong to tasks, not to processes",
        )
    ]


def _after_the_thaw(definition: PipelineDefinition) -> str:
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return "after the thaw it continues at its position and may write duplicates: no guarantee"
    if definition.offset_fencing is OffsetFencing.GROUP_ONLY:
        return "after the thaw its transaction is fenced by the epoch of its id, and it rejoins the group"
    return "after the thaw its transaction is fenced by its generation or epoch, and it rejoins the group"


def without_server(
    for_s: float, bound_s: float | None, *, reported: str = "tasks report their events afterwards"
) -> list[Expectation]:
    """Return the expectations of a frozen server, for every kind of pipeline."""
    return [
        Expectation(
            sentence="pages, REST and heartbeats have no answer until the thaw",
            within_s=for_s + MARGIN_S,
            because="a watchdog on the server's host thaws it",
        ),
        Expectation(
            sentence="records continue without a rebalance, fencing or interruption",
            within_s=bound_s,
            because="pipelines need Kafka only, and no server",
        ),
        Expectation(
            sentence=reported,
            within_s=for_s + RETURNS_WITHIN_S,
            because="they are kept until the server has stored them",
        ),
    ]


def _plus(seconds: float | None, more: float) -> float | None:
    return None if seconds is None else seconds + more
