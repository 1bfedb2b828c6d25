"""REST schemas of groups."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.core.journals.live_groups import CommittedOffset, GroupKind, GroupState
from app.core.journals.live_groups import LiveGroup as DomainGroup
from app.core.journals.query_marker import marker_of
from app.core.lag.report import GroupLag
from app.core.observing import group_list
from app.core.observing.schemas.lag import Lag, LagAt, LagOfPartition, LagSampling, history_of, partitions_of
from app.core.observing.schemas.reading import JournalReading, PartitionsOfTopic, or_none
from app.core.observing.service.groups import GroupDetail as DomainGroupDetail
from app.core.observing.snapshot import SnapshotSource
from app.kit.web.api.bodies import Answer
from app.kit.words import moment


class Group(Answer):
    group: str
    kind: GroupKind
    state: GroupState
    generation: Annotated[int, Field(description="Classic generation or group epoch; -1: neither is known.")]
    members: int
    stored_offsets: int
    pending_offsets: Annotated[int, Field(description="Of open transactions.")]
    rebalanced_at: datetime | None
    source: Annotated[
        SnapshotSource,
        Field(description="admin_calls: its coordinator's answer, without history and classic generation."),
    ]
    lag: Annotated[Lag | None, Field(description="null: not sampled, or no committed offset.")]

    @classmethod
    def of_live(cls, group: DomainGroup, lag: GroupLag | None) -> Group:
        return cls.model_validate(_group(group, lag))


class Member(Answer):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    owned: list[PartitionsOfTopic]
    target: list[PartitionsOfTopic]
    revoking: list[PartitionsOfTopic]
    epoch: Annotated[int | None, Field(description="Of a member of a group with epochs: KIP-848, Streams or share.")]
    state: str | None


class StoredOffset(Answer):
    """is_pending: of an open transaction; producer_id null: stored without a transaction."""

    topic: str
    partition: int
    offset: Annotated[int | None, Field(description="null: coordinators do not report a pending one.")]
    is_pending: bool
    at: datetime | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: Annotated[str | None, Field(description="The id that has the producer id now, if known.")]
    batch: Annotated[
        int | None, Field(description="Number of the batch if this is a query's marker, and no position; else null.")
    ]


class Rebalance(Answer):
    number: Annotated[int, Field(description="The generation or group epoch that was reached.")]
    members: int
    at: datetime | None


class GroupDetail(Group):
    protocol: str | None
    leader: str | None
    member_list: list[Member]
    offsets: list[StoredOffset]
    rebalances: Annotated[list[Rebalance], Field(description="The newest ones, oldest first.")]
    offsets_aborted: Annotated[int, Field(description="Pending offsets that were aborted.")]
    not_decoded: Annotated[str, Field(description="The part that is not decoded for this kind; empty: none.")]
    lag_partitions: Annotated[list[LagOfPartition], Field(description="The leaders are asked for this answer.")]
    lag_history: Annotated[list[LagAt], Field(description="Of 24 hours, oldest first; null: a gap.")]
    reading: JournalReading

    @classmethod
    def of_detail(cls, detail: DomainGroupDetail, *, now: datetime) -> GroupDetail:
        group = detail.group

        def offset(topic: str, partition: int, found: CommittedOffset, *, is_pending: bool) -> StoredOffset:
            marker = marker_of(found.commit.offset, found.commit.metadata)
            return StoredOffset(
                topic=topic,
                partition=partition,
                offset=or_none(found.commit.offset),
                is_pending=is_pending,
                at=moment(found.commit.commit_ms),
                producer_id=or_none(found.producer_id),
                producer_epoch=or_none(found.producer_epoch),
                transactional_id=detail.transactional_ids.get(found.producer_id),
                batch=None if marker is None else marker.batch,
            )

        stored = [offset(*at, found, is_pending=False) for at, found in sorted(group.offsets.items())]
        pending = [offset(*at[:2], found, is_pending=True) for at, found in sorted(group.pending.items())]
        return cls(
            **_group(group, None if detail.lag is None else detail.lag.total),
            protocol=None if group.classic is None else group.classic.protocol,
            leader=None if group.classic is None else group.classic.leader,
            member_list=[
                Member(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    host=member.host,
                    owned=PartitionsOfTopic.of_all(member.owned),
                    target=PartitionsOfTopic.of_all(member.target),
                    revoking=PartitionsOfTopic.of_all(member.revoking),
                    epoch=member.epoch,
                    state=member.state,
                )
                for member in group_list.members_of(group)
            ],
            offsets=stored + pending,
            rebalances=[
                Rebalance(number=one.number, members=one.members, at=moment(one.at_ms)) for one in group.rebalances
            ],
            offsets_aborted=group.offsets_aborted,
            not_decoded=group.not_decoded,
            lag_partitions=partitions_of(detail.lag),
            lag_history=history_of(detail.lag),
            reading=JournalReading.of_status(detail.journal, now=now),
        )


class GroupList(Answer):
    items: list[Group]
    next_cursor: str | None
    matching: Annotated[int, Field(description="The number of results on all pages.")]
    lag_sampling: LagSampling
    reading: JournalReading


def _group(group: DomainGroup, lag: GroupLag | None) -> dict[str, Any]:
    return {
        "group": group.group,
        "kind": group.kind,
        "state": group.state,
        "generation": group.generation,
        "members": group.member_count,
        "stored_offsets": len(group.offsets),
        "pending_offsets": len(group.pending),
        "rebalanced_at": moment(group.rebalances[-1].at_ms) if group.rebalances else None,
        "lag": Lag.of_group(lag),
        "source": SnapshotSource.JOURNAL if group.is_from_journal else SnapshotSource.ADMIN_CALLS,
    }
