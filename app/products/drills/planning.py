"""What should happen in a drill, and by when: from the definition that the pipeline runs, nothing measured."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, PipelineDefinition, ProcessingGuarantee
from app.products.drills.drill import DrillKind, Expectation, Plan

MARGIN_S = 3.0
"""For rebalances, for what the client polls, and for looking."""
_COMMITS_IN_MARGIN_S = 1.0
"""Two commit intervals up to this are in it, too."""
ABORT_SWEEP_S = 10.0
"""`transaction.abort.timed.out.transaction.cleanup.interval.ms` where brokers do not say it, as they come."""
HEARTBEAT_S = 3.0
"""How often a member tells its group that it lives: the session runs from the last time."""
RETURNS_WITHIN_S = 30.0
"""From the thaw or the kill to every task running again: Spark's retry, a producer's init, a rebalance."""


class BrokerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What only the brokers know; None: they do not say.

    session_s: after which a silent member of a KIP-848 group is put out, where the group has no time of its own.
    abort_sweep_s: how often they look for transactions that have timed out.
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
) -> Plan:
    """The plan of a drill.

    own, others: how many tasks are drilled, and how many of the group go on.
    """
    bound_s = _stands_still_s(definition, kind, for_s=for_s, others=others, times=times)
    return Plan(
        for_s=for_s,
        group=definition.group_id,
        cluster=cluster,
        tasks=own + others,
        stands_still_s=bound_s,
        commits_every_s=definition.commits_every_ms / 1000,
        expected=tuple(_expected(definition, kind, for_s=for_s, others=others, bound_s=bound_s, times=times)),
    )


def _margin_s(definition: PipelineDefinition) -> float:
    """A commit may have been due just when it began, and the next one comes an interval after all is well again, with
    files once they are uploaded."""
    uploads_ms = 0 if definition.files is None else definition.files.upload_timeout_ms
    commits_s = (2 * definition.commits_every_ms + uploads_ms) / 1000
    return MARGIN_S + max(0.0, commits_s - _COMMITS_IN_MARGIN_S)


def _session_s(definition: PipelineDefinition, times: BrokerTimes) -> float | None:
    """With KIP-848 the brokers decide it."""
    is_theirs = definition.group_protocol is GroupProtocol.CONSUMER
    return times.session_s if is_theirs else definition.session_timeout_ms / 1000


def _session_words(definition: PipelineDefinition, session_s: float | None) -> str:
    if definition.group_protocol is not GroupProtocol.CONSUMER:
        return f"session timeout {session_s:g} s"
    if session_s is None:
        return "the brokers' own session timeout"
    return f"the brokers' session timeout of {session_s:g} s, unless the group has been given another"


def _sweep_s(times: BrokerTimes) -> float:
    return ABORT_SWEEP_S if times.abort_sweep_s is None else times.abort_sweep_s


def _abort_s(definition: PipelineDefinition, times: BrokerTimes) -> float | None:
    """When the coordinator has ended an open transaction of a producer that is silent; None where there is none."""
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return None
    return definition.transaction_timeout_ms / 1000 + _sweep_s(times)


def _new_owner_waits(definition: PipelineDefinition) -> bool:
    """Whether a new owner has another id than the old one, so that only the timeout decides offsets left pending."""
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
        # Its next attempt takes the same ids again, which ends what was open; only the session has to run out.
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
    """What ends the longest standstill of an instance's drill, in words: the same cases as of `_stands_still_s`."""
    session_s, abort_s = _session_s(definition, times), _abort_s(definition, times)
    if session_s is None or kind is DrillKind.KILL_INSTANCE:
        return _session_words(definition, session_s)
    if for_s < session_s or not others:
        return "the thaw"
    if abort_s is None or not _new_owner_waits(definition) or abort_s <= session_s:
        return _session_words(definition, session_s)
    return "the brokers' abort of what was open" if abort_s <= for_s else "the thaw, which comes before the abort"


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
        return _without_server(for_s, bound_s)
    session_s, abort_s = _session_s(definition, times), _abort_s(definition, times)
    session = _session_words(definition, session_s)
    expected: list[Expectation] = []
    if kind is DrillKind.KILL_INSTANCE:
        expected += [
            Expectation(
                sentence="Spark begins the next attempt of each task that was killed",
                within_s=RETURNS_WITHIN_S,
                because="it looks after its Python workers and tries again",
            ),
            *_taken_over(definition),
            Expectation(
                sentence="the group gives the dead member's partitions to living ones, in a new generation",
                within_s=_plus(session_s, MARGIN_S),
                because=session,
            ),
        ]
    elif session_s is not None and for_s < session_s:
        expected.append(
            Expectation(
                sentence="nobody but you notices: no rebalance, the partitions wait for the thaw"
                if for_s <= session_s - HEARTBEAT_S
                else "it may go unnoticed, or cost a rebalance: its last heartbeat was up to "
                f"{HEARTBEAT_S:g} s before the freeze",
                within_s=for_s + MARGIN_S,
                because=f"{for_s:g} s are less than it takes: {session}",
            )
        )
    else:
        whom = "others" if others else "nobody: no other task is in the group, so they wait for the thaw"
        expected.append(
            Expectation(
                sentence=f"the group takes its partitions away in a new generation, and gives them to {whom}",
                within_s=_plus(session_s, MARGIN_S),
                because=session,
            )
        )
        if abort_s is not None and _new_owner_waits(definition):
            expected.append(
                Expectation(
                    sentence="what it had open is aborted by the brokers, if it had anything open; until then readers "
                    "of the sink wait, and so does the new owner where offsets were pending",
                    within_s=abort_s,
                    because=f"transaction timeout {definition.transaction_timeout_ms / 1000:g} s, looked for "
                    f"every {_sweep_s(times):g} s",
                )
            )
        expected.append(Expectation(sentence=_after_the_thaw(definition), within_s=for_s + RETURNS_WITHIN_S))
    expected.append(
        Expectation(
            sentence="records of every partition flow again",
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
            sentence="it takes the same transactional id: a higher epoch, and what was open is aborted at once",
            within_s=RETURNS_WITHIN_S,
            because="ids belong to tasks, not to processes",
        )
    ]


def _after_the_thaw(definition: PipelineDefinition) -> str:
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return "after the thaw it goes on where it was and may write again what others have written: no guarantee"
    if definition.offset_fencing is OffsetFencing.GROUP_ONLY:
        return "after the thaw its old transaction is refused by the epoch of its id, and it joins the group again"
    return "after the thaw its old transaction is refused, as its membership or its epoch is old, and it joins again"


def _without_server(for_s: float, bound_s: float | None) -> list[Expectation]:
    return [
        Expectation(
            sentence="this page, the API and the workers' heartbeats get no answer, and then do again by themselves",
            within_s=for_s + MARGIN_S,
            because="a watchdog on the server's host thaws it",
        ),
        Expectation(
            sentence="records flow on as if nothing had happened: no rebalance, no fencing, no standstill",
            within_s=bound_s,
            because="pipelines talk to Kafka by themselves and need no server",
        ),
        Expectation(
            sentence="what tasks saw meanwhile is told afterwards",
            within_s=for_s + RETURNS_WITHIN_S,
            because="they keep events until they are taken",
        ),
    ]


def _plus(seconds: float | None, more: float) -> float | None:
    return None if seconds is None else seconds + more
