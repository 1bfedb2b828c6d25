"""The next steps, three lines for each cause: was it intended, what to check, what to change."""

from __future__ import annotations

from app.core.fencing.fencing_event import FencingCause

Runbook = tuple[str, str, str]

_NOTHING_LOST = (
    "The data needs no fix: consumers with `isolation.level=read_committed` skip the aborted records, and the id's "
    "current producer reads its input again from the last commit."
)
_BATCH_REPEATED = (
    "The data needs no fix: consumers with `isolation.level=read_committed` skip the aborted records, and the batch is "
    "repeated."
)
_NOTHING_TO_DO = "No action is required: no producer was fenced."
_REFUSED_TOGETHER = (
    "The data needs no fix: the offsets were refused together with the records of the transaction. "
    "The new owner of the partitions reads them again."
)

_RUNBOOKS: dict[FencingCause, Runbook] = {
    FencingCause.TAKEOVER: (
        (
            "Check whether the start of the new producer was intended: a restart, a rebalance or a failover is; a "
            "second copy of the program with the same `transactional.id` is not."
        ),
        (
            "Check whether the epoch of the id continues to rise. One step is one takeover. Many steps are two "
            "producers that fence each other: give one of them another id, or stop it."
        ),
        _NOTHING_LOST,
    ),
    FencingCause.APPLICATION_RETURNED: (
        (
            "Find out why the process was away: a long pause, a frozen host, a crash, or a failed thread. Its own "
            "log of that time shows the cause."
        ),
        (
            "If it was paused, compare the pause with `session.timeout.ms` and `transaction.timeout.ms`. If the epoch "
            "continues to rise, search for two processes with copies of one state directory."
        ),
        _NOTHING_LOST,
    ),
    FencingCause.NEWER_DRIVER: (
        (
            "Check on the page of the run why the older driver ended: the reason of its lease, and its log. A "
            "restart, a kill and a drill are intended."
        ),
        (
            "If leases follow each other quickly, compare the reasons of their ends. A query of another application "
            "must not have the same group and `group.instance.id`."
        ),
        _BATCH_REPEATED,
    ),
    FencingCause.NEWER_ATTEMPT: (
        (
            "Find out why Spark repeated the task: the log of its executor, the memory of its host, or a failed share "
            "in the log of the driver."
        ),
        (
            "If that occurs often, compare the duration of a batch with `transaction.timeout.ms`, and bound it by "
            "`max_offsets_per_trigger`."
        ),
        _BATCH_REPEATED,
    ),
    FencingCause.TIMEOUT: (
        (
            "Find out what delayed the producer: a slow sink or transform, a paused or frozen process, or an "
            "unreachable broker."
        ),
        (
            "If its work usually takes that long, commit more often, or raise its `transaction.timeout.ms` (at most "
            "the brokers' `transaction.max.timeout.ms`). Consumers are blocked for as long."
        ),
        f"Check that it started again: the old producer can no longer commit. {_NOTHING_LOST}",
    ),
    FencingCause.OPERATOR_FENCE: (
        "Find the user and the reason in the command log.",
        (
            "Check that the program with the id was stopped before, or was started again since: a fenced producer "
            "does not recover by itself."
        ),
        _NOTHING_LOST,
    ),
    FencingCause.DEAD_TASK: (
        "Find out why the process died: its log, the log of its Spark executor, the memory of its host.",
        (
            "Check on the pipeline's page that another task has its partitions. If no task had to wait for the "
            "transaction timeout, this end has served its purpose."
        ),
        _NOTHING_LOST,
    ),
    FencingCause.COORDINATOR_ABORT: (
        (
            "Check whether another client started with the id at that time: a failed start, or a tool that fences "
            "(such as `kafka-transactions.sh`), leaves this record."
        ),
        (
            "Check the log of the coordinator's broker at that time, and whether the coordinator moved: with the "
            "clocks of two brokers, a timeout may look like this."
        ),
        "Check that the producer started again: at its old epoch it can no longer commit.",
    ),
    FencingCause.ZOMBIE_REFUSED: (
        (
            "Find the old process and end it: it continued after its successor had started, and may hold "
            "connections, files or locks elsewhere."
        ),
        (
            "Find out why it was considered dead: a long pause, a network failure, or a supervisor that started a "
            "second one too early."
        ),
        "The data needs no fix: the broker rejected all writes of the old producer.",
    ),
    FencingCause.UNEXPLAINED: (
        (
            "Check the age of the observer's reading and the start of its complete part: the record of the cause may "
            "not have been read, or compaction has removed it."
        ),
        (
            "Check whether another producer uses the id now, and whether the last transaction took as long as its "
            "timeout."
        ),
        "Check that the refused producer started again, or that its end was intended.",
    ),
    FencingCause.STALE_GENERATION: (
        (
            "Check the group's rebalances at that time: a member that polls later than `max.poll.interval.ms`, "
            "or sends no heartbeat for `session.timeout.ms`, is removed from the group."
        ),
        (
            "If its batches usually take that long, make them smaller, or raise those two settings. Two members must "
            "not share a `group.instance.id`."
        ),
        _REFUSED_TOGETHER,
    ),
    FencingCause.STALE_MEMBER_EPOCH: (
        (
            "Check the group's epochs at that time: a member without a heartbeat for "
            "`group.consumer.session.timeout.ms` is removed from the group."
        ),
        (
            "If its batches usually take that long, make them smaller. Check for pauses of the process and for a "
            "coordinator that moved."
        ),
        _REFUSED_TOGETHER,
    ),
    FencingCause.OPERATOR_ABORT: (
        "Find the author of the marker: the coordinator still had this transaction open, so it was not hanging.",
        (
            "Check whether the transaction was committed later. If so, its records in this partition are lost, and "
            "those in its other partitions are not: it was not atomic."
        ),
        (
            "Compare input and output of that time, and write missing records again. For a live transaction, fence "
            "the id instead: that ends all of it."
        ),
    ),
    FencingCause.HANGING_ENDED: (
        "Check that consumers of the partition continue: its last stable offset should be at the high watermark.",
        (
            "Check `transaction.partition.verification.enable` on the brokers, and the versions of brokers and "
            "clients: with KIP-890 transactions can no longer hang."
        ),
        "Compare input and output of that time: the records of the hanging transaction were aborted.",
    ),
    FencingCause.CLEAN_RESTART: (
        _NOTHING_TO_DO,
        "If no restart was intended, find the user of this `transactional.id`.",
        "If the old producer is still alive and writes, the broker refuses it, and this event reports it.",
    ),
    FencingCause.OWN_ABORT: (
        _NOTHING_TO_DO,
        "If the program aborts often, its own log has the reason.",
        "From KIP-890 on, each commit and abort raises the epoch; a rising epoch alone is no fencing.",
    ),
    FencingCause.OWN_EPOCH: (
        _NOTHING_TO_DO,
        "The client requested its own next epoch after an error (KIP-360); its log has the error.",
        "If it does so often, check its connection to the brokers.",
    ),
    FencingCause.EPOCHS_USED_UP: (
        _NOTHING_TO_DO,
        "A producer id has 32,767 epochs; the id got the next producer id, as intended.",
        "If that occurs often, check how often the program restarts.",
    ),
}


def runbook(cause: FencingCause) -> Runbook:
    """Return three steps in their order; `names` between backticks."""
    return _RUNBOOKS[cause]
