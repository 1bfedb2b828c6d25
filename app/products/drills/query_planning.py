"""The expectations of a drill of a query: its driver is frozen or killed, or the server is frozen. Nothing is measured.

One driver has the pipeline, so no other member takes over. A killed driver is leased again as soon as its process is
gone. A frozen one is replaced after the session timeout, when its group removes it, too.
"""

from __future__ import annotations

from app.core.pipelines.pipeline import PipelineDefinition
from app.products.drills.drill import DrillKind, DrillPlan, Expectation
from app.products.drills.planning import MARGIN_S, RETURNS_WITHIN_S, without_server

DRIVER_RETURNS_WITHIN_S = 60.0
"""Time from the end of a driver until its successor has committed: a JVM's start, the plan, the claim, a batch."""
_TRIGGERS = 2


def plan_of_query(definition: PipelineDefinition, kind: DrillKind, *, for_s: float, cluster: str) -> DrillPlan:
    """Return the plan of a drill. Raises ValueError if the pipeline is not of kind `dataframe`."""
    query = definition.dataframe
    if query is None:
        raise ValueError(f"the pipeline of {definition.sink_topic} is not of kind dataframe")
    session_s = definition.session_timeout_ms / 1000
    trigger_s = query.trigger_ms / 1000
    is_replaced = kind is DrillKind.FREEZE_INSTANCE and for_s >= session_s
    bound_s = _stands_still_s(definition, kind, for_s=for_s) + MARGIN_S + _TRIGGERS * trigger_s
    return DrillPlan(
        for_s=for_s,
        group=definition.group_id,
        cluster=cluster,
        tasks=definition.tasks_per_instance,
        stands_still_s=bound_s,
        commits_every_s=trigger_s,
        topics=definition.source_topics,
        marker_topic=definition.sink_topic,
        replaced_after_s=session_s if is_replaced else None,
        expected=tuple(_expected(definition, kind, for_s=for_s, bound_s=bound_s)),
    )


def _stands_still_s(definition: PipelineDefinition, kind: DrillKind, *, for_s: float) -> float:
    if kind is DrillKind.FREEZE_SERVER:
        return 0.0
    if kind is DrillKind.KILL_INSTANCE:
        return DRIVER_RETURNS_WITHIN_S
    session_s = definition.session_timeout_ms / 1000
    if for_s >= session_s:
        return session_s + DRIVER_RETURNS_WITHIN_S
    # The batch of an aborted transaction fails after the thaw, and with it the query.
    is_aborted = for_s >= definition.transaction_timeout_ms / 1000
    return for_s + (DRIVER_RETURNS_WITHIN_S if is_aborted else 0.0)


def _expected(definition: PipelineDefinition, kind: DrillKind, *, for_s: float, bound_s: float) -> list[Expectation]:
    if kind is DrillKind.FREEZE_SERVER:
        return without_server(for_s, bound_s, reported="the driver reports its batches afterwards, each of them")
    session_s, timeout_s = definition.session_timeout_ms / 1000, definition.transaction_timeout_ms / 1000
    session = f"session timeout {session_s:g} s"
    if kind is DrillKind.KILL_INSTANCE:
        expected = [
            Expectation(
                sentence="the server starts the next driver, under the next lease",
                within_s=DRIVER_RETURNS_WITHIN_S,
                because="the process of the driver is gone",
            ),
            _takes_over(DRIVER_RETURNS_WITHIN_S),
        ]
    elif for_s < session_s:
        expected = [
            Expectation(
                sentence="no second driver: the batch waits for the thaw",
                within_s=for_s + MARGIN_S,
                because=f"{for_s:g} s, shorter than {session}",
            )
        ]
        if for_s >= timeout_s:
            expected.append(
                Expectation(
                    sentence="the brokers abort the open transaction, if any; then the query fails and starts again",
                    within_s=for_s + DRIVER_RETURNS_WITHIN_S,
                    because=f"transaction timeout {timeout_s:g} s",
                )
            )
    else:
        expected = [
            Expectation(
                sentence="the server ends the lease of the frozen driver and starts a second one",
                within_s=session_s + MARGIN_S,
                because=f"{for_s:g} s, not shorter than {session}",
            ),
            _takes_over(session_s + DRIVER_RETURNS_WITHIN_S),
            Expectation(
                sentence="after the thaw the older driver is refused: it commits nothing, and ends as superseded",
                within_s=max(for_s, session_s) + RETURNS_WITHIN_S,
                because="its claim and its transactional ids are fenced",
            ),
        ]
    because = "the start of a driver" if kind is DrillKind.KILL_INSTANCE or for_s >= session_s else "the thaw"
    return [*expected, Expectation(sentence="every partition has commits again", within_s=bound_s, because=because)]


def _takes_over(within_s: float) -> Expectation:
    return Expectation(
        sentence="it takes the claim and initialises the same transactional ids, which aborts open transactions; a "
        "batch that was committed and not recorded is recognised by its markers",
        within_s=within_s,
        because="claim and ids belong to the pipeline, not to a driver",
    )
