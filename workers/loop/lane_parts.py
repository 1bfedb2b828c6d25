"""The parts of a lane, by processing guarantee."""

from __future__ import annotations

from app.core.clusters.partition import Partition
from app.core.ids import transactional_id
from app.core.pipelines.pipeline import OffsetFencing, ProcessingGuarantee
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.claim.inquiry import SETTLE_S, Inquiry
from workers.loop.claim.journal import IdJournal
from workers.loop.claim.word import SharedWord
from workers.loop.client_config import (
    Batches,
    idempotent_producer_config,
    is_compressing,
    reader_config,
    transactional_producer_config,
)
from workers.loop.control import Control, TaskSpecification
from workers.loop.group.group_alone import GroupAlone
from workers.loop.group.member_metadata import MemberMetadata
from workers.loop.group.membership import Membership
from workers.loop.group.offset_commits import OffsetCommits
from workers.loop.lane import Lane
from workers.loop.lane_of_each import LaneOfEach
from workers.loop.lanes import Lanes, OneLane
from workers.loop.producing.idempotent_producer import IdempotentProducer
from workers.loop.producing.limits import Limits
from workers.loop.producing.producers import SendsFor
from workers.loop.producing.task_files import TaskFiles
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.batching import BatchSize
from workers.loop.records.failures import BadRecords, FailureWindow
from workers.loop.records.suspicion import Suspicion
from workers.loop.recovery import Recovery
from workers.loop.settling import MakeProducer, Settling
from workers.loop.slices import SLICE_S, CommitBounds
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import WorkTally


def lanes_of(
    specification: TaskSpecification,
    control: Control,
    *,
    membership: Membership,
    commits: OffsetCommits,
    batch_size: BatchSize,
    tally: WorkTally,
    progress: ProgressReporter,
    files: TaskFiles | None,
    limits: Limits,
    max_poll_interval_s: float,
) -> Lanes:
    """The lanes of an attempt: one for all partitions, or one for each partition that will be assigned."""
    definition = specification.definition
    of_each = definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    window = FailureWindow()
    ids = PartitionIds(specification)
    bounds = CommitBounds(
        transaction_timeout_s=definition.transaction_timeout_ms / 1000,
        max_poll_interval_s=max_poll_interval_s,
        before_s=0.0 if files is None else files.upload_timeout_s,
        # After an unanswered abort a successor is made, whose init ends the transaction. With many lanes the wait for
        # each abort is short.
        abort_s=2 * SLICE_S if of_each else None,
    )
    is_for_group_alone = of_each and definition.offset_fencing is OffsetFencing.GROUP_ONLY
    metadata = MemberMetadata(membership.consumer)
    word = SharedWord(lambda timeout_s: control.ask_is_current(timeout_s=timeout_s))
    sends_for: SendsFor = GroupAlone(definition.group_id) if is_for_group_alone else metadata

    def lane(partition: Partition | None) -> Lane:
        size = CheckpointSize(timeout_s=definition.transaction_timeout_ms / 1000, bound_s=bounds.usual_s)
        progress.watch(partition, size)
        name = specification.transactional_id if partition is None else ids.of(partition)
        make = producer_maker(specification, name, commits)
        settling = Settling(
            membership,
            make if files is None else files.into_files(make, transactional_id=name),
            inquiry_of(specification, name, control, word=word),
            announce=control.event,
            learn=progress.learned,
            batches=Batches(largest_request_bytes=limits.largest_request_bytes),
            may_compress=not is_compressing(specification),
            only=partition,
        )
        return Lane(
            partition,
            membership=membership,
            settling=settling,
            recovery=lambda lane: Recovery(
                lane,
                batch_size=batch_size,
                announce=control.event,
                progress=progress,
                why_refused=limits.why_refused,
            ),
            suspicion=Suspicion(membership.ownership, is_warm=lambda: progress.has_survived),
            bad_records=BadRecords(definition.errors, announce=control.event, window=window, told=tally.totals.bad),
            tally=WorkTally(tally.totals),
            progress=progress,
            bounds=bounds,
            size=size,
            sends_for=sends_for,
        )

    if not of_each:
        return OneLane(lane(None), progress=progress)
    return LaneOfEach(
        lane,
        id_of=ids.of,
        refusal=ids.refusal,
        membership=membership,
        metadata=metadata,
        progress=progress,
        bounds=bounds,
        session_s=definition.session_timeout_ms / 1000,
        sends_for_group_alone=is_for_group_alone,
    )


class PartitionIds:
    """The transactional ids of input partitions: from their mappings; by the formula where the server has none."""

    def __init__(self, specification: TaskSpecification) -> None:
        self._definition = specification.definition
        self._known = {
            Partition(mapping.topic, mapping.partition): mapping.transactional_id
            for mapping in specification.mappings
            if mapping.topic in specification.definition.source_topics
        }

    def of(self, partition: Partition) -> str:
        return self._known.get(partition) or transactional_id.for_partition(
            prefix=self._definition.transactional_id_prefix,
            group=self._definition.group_id,
            topic=partition.topic,
            partition=partition.partition,
        )

    @property
    def refusal(self) -> str | None:
        """The reason why no task can run with these ids: two partitions have one id, and would fence each other."""
        owners: dict[str, Partition] = {}
        for partition, name in sorted(self._known.items()):
            other = owners.setdefault(name, partition)
            if other != partition:
                return (
                    f"{other} and {partition} have one transactional id, {name}. Their "
                    "producers would fence each other. Give each partition its own id"
                )
        return None


def producer_maker(specification: TaskSpecification, name: str | None, commits: OffsetCommits) -> MakeProducer:
    """Return the maker of the guarantee's kind of producer; `name` is its transactional id."""
    if specification.definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return lambda batches: IdempotentProducer(idempotent_producer_config(specification, batches=batches), commits)
    return lambda batches: TransactionalProducer(
        transactional_producer_config(specification, transactional_id=name, batches=batches)
    )


def inquiry_of(
    specification: TaskSpecification, name: str | None, control: Control, *, word: SharedWord
) -> Inquiry | None:
    """The ownership check for the id `name`; None without an id. `word`: the answer that all partitions share."""
    definition = specification.definition
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE or name is None:
        return None
    of_partition = definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    return Inquiry(
        ask_server=word if of_partition else (lambda timeout_s: control.ask_is_current(timeout_s=timeout_s)),
        open_journal=lambda: IdJournal(name, reader_config(specification)),
        # A member that polls learns it with its next heartbeat, which is a quarter of a session away at most.
        group_speaks_s=max(SETTLE_S, definition.session_timeout_ms / 2000) if of_partition else None,
    )
