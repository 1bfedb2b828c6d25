"""Runs, instances, tasks and offsets at the edge."""

from __future__ import annotations

from app.core.mappings import mapping
from app.core.runs import instance, run, task
from app.kit.page import Page
from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import Items, shows
from app.kit.web.api.words import Why


class Reason(Body):
    why: Why = None


class StartGiven(Body):
    """switch_at_once: also from group_only to v2 or back, which may process records twice; it takes a `why`."""

    switch_at_once: bool = False
    why: Why = None


class RestartGiven(Body):
    """rolling: one instance at a time; else all drain and the next run starts."""

    rolling: bool = True
    why: Why = None


@shows(instance.InstanceOutcome)
class InstanceOutcome:
    """How the application said that it ended."""


@shows(instance.Instance, without=("log_path",))
class Instance:
    """One lease of one ordinal of a run: one Spark application.

    failures: how many leases of the ordinal failed in a row before it. tasks_crashing: tasks that fail again and again.
    """


@shows(run.Run)
class Run:
    """One start of a pipeline. `instances` has the current lease of each ordinal.

    targets: the revision of the next lease of those ordinals that a migration leads elsewhere.
    """


@shows(task.PartitionProgress)
class PartitionProgress:
    """Offsets are the next offset to read. With exactly_once each partition has a producer of its own.

    offsets_generation: what its offsets are sent with, -1 for the group alone.
    """


@shows(task.Counters)
class Counters:
    """Totals since the attempt began."""


@shows(task.TaskRates, without=("since",))
class TaskRates:
    """Per second. `over_ms`: the time that they are an average of: of a task that commits less often than each second,
    from commit to commit."""


@shows(task.TaskStatus)
class TaskStatus:
    """The last report of the highest (lease, attempt) of a task; `received_at` is the server's clock."""


@shows(task.TaskEventRecord)
class TaskEvent:
    pass


@shows(mapping.Archived)
class Archived:
    """Given up for good: fenced by a migration, and initialised by nobody since. `migration`: null once forgotten."""


@shows(mapping.PartitionMapping)
class PartitionMapping:
    """An input partition and the transactional id under which it is read; `owner` is null while nobody holds it.

    `transactional_id` is what its owner told last, `assigned_id` what it is read under in `exactly_once`; `archived`
    says that a migration to `exactly_once_v2` gave that one up.
    """

    lag_records = "Records between what is committed and the end."


@shows(mapping.PartitionOwnership)
class PartitionOwnership:
    """One stretch of time in which one attempt held one partition by one producer, epoch and generation.

    `until` is null while it lasts; what the owner never told is null. `heard_until`: when the owner was heard the last
    time before the end (null: not known). It ended between then and `until`, which is when somebody else was heard, or
    the owner was given up.
    """


@shows(mapping.TransactionalIdOwner)
class TransactionalIdOwner:
    """The one pipeline that owns a transactional id on a Kafka cluster; `ordinal` and `task` of a task's id only.

    `archived`: a migration of the pipeline gave it up.
    """


@shows(Items[mapping.PartitionMapping])
class MappingList:
    pass


@shows(Page[mapping.PartitionOwnership])
class OwnershipPage:
    pass


@shows(Items[mapping.TransactionalIdOwner])
class TransactionalIdList:
    pass


@shows(Items[task.TaskStatus])
class TaskList:
    pass
