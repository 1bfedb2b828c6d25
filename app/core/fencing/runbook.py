"""What to do next, three lines for each cause: is it meant, what to look at, what to change."""

from __future__ import annotations

from app.core.fencing.fencing_event import Cause

Runbook = tuple[str, str, str]

_NOTHING_LOST = (
    "Nothing to mend in the data: what was aborted is skipped by readers with `isolation.level=read_committed`, and "
    "whoever has the id now reads its input again from the last commit."
)
_NOTHING_TO_DO = "Nothing to do: nobody lost anything."
_REFUSED_TOGETHER = (
    "Nothing to mend in the data: the offsets were refused together with the records of the transaction. "
    "The new owner of the partitions reads them again."
)

_RUNBOOKS: dict[Cause, Runbook] = {
    Cause.TAKEOVER: (
        (
            "Ask whether the new producer was meant to begin: a restart, a rebalance or a failover is; a second "
            "copy of the program under the same `transactional.id` is not."
        ),
        (
            "Look whether the epochs of the id go on rising. One step is one takeover; many are two producers "
            "that take the id from each other, and one of them has to get another id or to be stopped."
        ),
        _NOTHING_LOST,
    ),
    Cause.APPLICATION_RETURNED: (
        (
            "Find out why the process was away: a long pause, a frozen host, a crash, or a thread that failed. Its own "
            "log at that time says which."
        ),
        (
            "If it was paused, compare the pause with `session.timeout.ms` and `transaction.timeout.ms`. If the epochs "
            "go on rising, look for two processes with a copy of one state folder."
        ),
        _NOTHING_LOST,
    ),
    Cause.TIMEOUT: (
        (
            "Find out what held the producer up for so long: a slow sink or transform, a paused or frozen "
            "process, a broker that it could not reach."
        ),
        (
            "If its work takes that long on a good day, commit more often, or raise its `transaction.timeout.ms` "
            "(at most the brokers' `transaction.max.timeout.ms`). Readers wait for as long."
        ),
        f"See that it began again: the old producer can no longer commit. {_NOTHING_LOST}",
    ),
    Cause.OPERATOR_FENCE: (
        "Ask who did it; the command log has the name and the reason.",
        (
            "See that the program that had the id was stopped before, or was started again since: a producer that "
            "is fenced does not come back by itself."
        ),
        _NOTHING_LOST,
    ),
    Cause.DEAD_TASK: (
        "Find out why the process died: its log, the log of its Spark executor, the memory of its host.",
        (
            "See that another task has its partitions; the pipeline's page says who. Where none had to wait for the "
            "transaction timeout, this end has done its work."
        ),
        _NOTHING_LOST,
    ),
    Cause.COORDINATOR_ABORT: (
        (
            "Look whether somebody began with the id just then: a start that failed, or a tool that fences (such "
            "as `kafka-transactions.sh`), leaves this record."
        ),
        (
            "Look into the log of the coordinator's broker at that time, and whether the coordinator moved: the "
            "clocks of two brokers may make a timeout look like this."
        ),
        "See that the producer began again: at its old epoch it can no longer commit.",
    ),
    Cause.ZOMBIE_REFUSED: (
        (
            "Find the old process and see that it ends: it lived on after its successor had begun, and may hold "
            "connections, files or locks elsewhere."
        ),
        (
            "Find out why it was thought dead: a long pause, a lost network, a supervisor that started a second "
            "one too early."
        ),
        "Nothing to mend in the data: nothing that the old one tried to write was taken.",
    ),
    Cause.UNEXPLAINED: (
        (
            "Look how old the observer's reading is and since when it is complete: the record that says why may "
            "not have been read, or compaction has removed it."
        ),
        (
            "Look whether another producer uses the id now, and whether its last transaction took as long as its "
            "timeout."
        ),
        "See that the producer that was refused began again, or that it ended on purpose.",
    ),
    Cause.STALE_GENERATION: (
        (
            "Look at the group's rebalances at that time: a member that polls later than `max.poll.interval.ms`, "
            "or sends no heartbeat for `session.timeout.ms`, is left behind."
        ),
        (
            "If its batches take that long on a good day, make them smaller, or raise those two; two members must "
            "not share a `group.instance.id`."
        ),
        _REFUSED_TOGETHER,
    ),
    Cause.STALE_MEMBER_EPOCH: (
        (
            "Look at the group's epochs at that time: a member that the coordinator has not heard of for "
            "`group.consumer.session.timeout.ms` is left behind."
        ),
        (
            "If its batches take that long on a good day, make them smaller; look for pauses of the process and "
            "for a coordinator that moved."
        ),
        _REFUSED_TOGETHER,
    ),
    Cause.OPERATOR_ABORT: (
        "Ask who wrote the marker: the coordinator still had this transaction open, so it was not hanging.",
        (
            "See whether the transaction was committed later. Then its records in this partition are lost, and "
            "those in its other partitions are not: it was not atomic."
        ),
        (
            "Compare input and output of that time, and write again what is missing. For a transaction that is "
            "alive, fence the id instead: that ends all of it."
        ),
    ),
    Cause.HANGING_ENDED: (
        "See that readers of the partition go on: its last stable offset should have reached the high watermark.",
        (
            "Look at `transaction.partition.verification.enable` on the brokers, and at the versions of brokers "
            "and clients: with KIP-890 transactions can no longer hang."
        ),
        "Compare input and output of that time: the records of the hanging transaction were aborted.",
    ),
    Cause.CLEAN_RESTART: (
        _NOTHING_TO_DO,
        "If nobody restarted anything, look who uses this `transactional.id`.",
        "Should the old producer still live and write, the broker refuses it, and this event says so.",
    ),
    Cause.OWN_ABORT: (
        _NOTHING_TO_DO,
        "If the program aborts often, its own log says why.",
        "From KIP-890 on each commit and abort has the next epoch; a rising epoch alone is no fencing.",
    ),
    Cause.OWN_EPOCH: (
        _NOTHING_TO_DO,
        "The client asked for its own next epoch after an error (KIP-360); its log says which.",
        "If it does so often, look at its connection to the brokers.",
    ),
    Cause.EPOCHS_USED_UP: (
        _NOTHING_TO_DO,
        "A producer id has 32,767 epochs; the id got the next producer id, as it has to.",
        "If that comes often, see how often the program begins anew.",
    ),
}


def runbook(cause: Cause) -> Runbook:
    """Three sentences, in the order in which they are done; `names` between backticks."""
    return _RUNBOOKS[cause]
