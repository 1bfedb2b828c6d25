"""Runs, instances, tasks and offsets in REST."""

from __future__ import annotations

from app.core.mappings import mapping
from app.core.runs import bad_records, instance, run, task
from app.kit.page import Page
from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import Items, shows
from app.kit.web.api.words import Why


class Reason(Body):
    why: Why = None


class StartGiven(Body):
    """switch_at_once: also from group_only to v2 or back, which may duplicate records; it requires a `why`."""

    switch_at_once: bool = False
    why: Why = None


class RestartGiven(Body):
    """rolling: one instance at a time; else all drain and the next run starts."""

    rolling: bool = True
    why: Why = None


@shows(instance.InstanceOutcome)
class InstanceOutcome:
    """The end of the application as it reported it."""


@shows(instance.Instance, without=("log_path",))
class Instance:
    """One lease of one ordinal of a run: one Spark application.

    failures: leases of the ordinal that failed in a row before it. tasks_crashing: tasks that fail repeatedly.
    """


@shows(run.Run)
class Run:
    """One start of a pipeline. `instances` has the current lease of each ordinal.

    targets: the revision of the next lease of ordinals for which a migration has chosen another one.
    """


@shows(task.PartitionProgress)
class PartitionProgress:
    """Offsets are the next offset to read. With exactly_once each partition has its own producer.

    offsets_generation: the generation that is sent with its offsets, -1 for the group alone.
    """


@shows(task.Counters)
class Counters:
    """Totals since the start of the attempt."""


@shows(task.TaskRates, without=("since",))
class TaskRates:
    """Per second. `over_ms`: the time of which they are the average. It is the time from commit to commit for a task
    that commits less often than each second."""


@shows(bad_records.BadCause)
class BadCause:
    """Bad records with one kind of error in one partition. `error` quotes nothing of a record.

    Offsets are the lowest and the highest one; times are by the task's clock.
    """


@shows(bad_records.BadMinute)
class BadMinute:
    """Bad records of committed checkpoints in one minute since 1970."""


@shows(bad_records.BadRecordSummary)
class BadRecordSummary:
    """A run's bad records, of all its attempts: by cause, and the number in the last hour."""


@shows(task.TaskStatus)
class TaskStatus:
    """The last report of the highest (lease, attempt) of a task; `received_at` is the server's clock."""


@shows(task.TaskEventRecord)
class TaskEvent:
    pass


@shows(mapping.Archived)
class Archived:
    """Retired: fenced by a migration, and not initialised since. `migration` is null once it is deleted."""


@shows(mapping.PartitionMapping)
class PartitionMapping:
    """An input partition and the transactional id under which it is read; `owner` is null without an owner.

    `transactional_id` is the one that its owner reported last, `assigned_id` the one for `exactly_once`. `archived`
    reports that a migration to `exactly_once_v2` retired the assigned id.
    """

    lag_records = "Records between the committed offset and the end."


@shows(mapping.PartitionOwnership)
class PartitionOwnership:
    """One ownership interval: one attempt owned one partition by one producer, epoch and generation.

    `until` is null while it lasts; null elsewhere means that the owner has not reported it. `heard_until` is the
    owner's last report before the end (null: not known). The end lies between it and `until`, the first report of
    another owner, or the time when the owner was released.
    """


@shows(mapping.TransactionalIdOwner)
class TransactionalIdOwner:
    """The one pipeline that owns a transactional id on a Kafka cluster; `ordinal` and `task` of a task's id only.

    `archived`: a migration of the pipeline has retired it.
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
