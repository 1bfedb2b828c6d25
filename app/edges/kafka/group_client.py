"""Groups, their offsets, and the brokers' versions, through kafka-python.

The library is untyped and partly private: this module is the border. Its functions block, and return no object of the
library.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from kafka.protocol.api_message import ApiMessage  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.consumer import (  # pyright: ignore[reportMissingTypeStubs]
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.structs import (
    OffsetAndMetadata,  # pyright: ignore[reportMissingTypeStubs]
    TopicPartition,  # pyright: ignore[reportMissingTypeStubs]
)

from app.core.clusters.brokers import SHARE, GroupDescription
from app.core.clusters.cluster import GroupMember
from app.core.clusters.partition import Partition
from app.core.clusters.survey import Feature
from app.core.journals.query_marker import QueryMarker, marker_of
from app.core.runs.recorded_offset import TruncatedOffset
from app.edges.kafka.raw_client import RawClient, error_of, errors
from app.kit.errors import ConflictError

_MESSAGES = "app.edges.kafka.messages"
_CONSUMER_GROUP_DESCRIBE = 69
_SHARE_GROUP_DESCRIBE = 77
_STREAMS_GROUP_DESCRIBE = 89
_UNSUPPORTED_VERSION = 35
_GROUP_ID_NOT_FOUND = 69
_UNSTABLE_OFFSET_COMMIT = 88
_DEAD = "Dead"
_HAS_MEMBERS = ("UnknownMemberIdError", "IllegalGenerationError", "RebalanceInProgressError", "FencedMemberEpochError")


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):
    """KIP-848; kafka-python has the message's number only."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):
    """Registers itself as the answer to the request above."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):
    """KIP-1071: groups of Kafka Streams with `group.protocol=streams`."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):
    """Registers itself as the answer to the request above."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):
    """KIP-932: share groups; version 0 was early access."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):
    """Registers itself as the answer to the request above."""


class BrokerFacts(NamedTuple):
    """The brokers' versions and features; `oldest` is None when none of them reported a version."""

    oldest: tuple[int, int] | None
    offers_consumer_protocol: bool | None


class GroupClient(RawClient):
    """A connection to the cluster; a context manager."""

    def broker_facts(self, broker_ids: Collection[int]) -> BrokerFacts:
        """Ask every broker; those without an answer are left out."""
        data = list(self._manager.run(self._versions, broker_ids).values())
        versions = [cast("tuple[int, int]", tuple(found.broker_version[:2])) for found in data]
        offers = [_CONSUMER_GROUP_DESCRIBE in found.api_versions for found in data]
        if not versions:
            return BrokerFacts(None, None)
        return BrokerFacts(min(versions), all(offers) and self._is_consumer_protocol_on())

    def versions(self, broker_ids: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return (major, minor) of each broker that answers."""
        found = self._manager.run(self._versions, broker_ids)
        return {one: cast("tuple[int, int]", tuple(data.broker_version[:2])) for one, data in found.items()}

    def features(self) -> tuple[Feature, ...]:
        """Return the supported features by name, with their finalized levels."""
        found: Any = self._client.describe_features()
        return tuple(
            Feature(
                name=name,
                level=0 if one.get("finalized") is None else one["finalized"][1],
                newest=None if one.get("supported") is None else one["supported"][1],
            )
            for name, one in sorted(found.items())
        )

    def describe(self, group: str) -> GroupDescription:
        """Describe it as a KIP-848 group first: each request finds groups of its own protocol only."""
        coordinator = self._manager.run(self._coordinator, group)
        # The others report it as "Dead", so groups of Kafka Streams and share groups are requested last.
        return (
            self._described(ConsumerGroupDescribeRequest, _CONSUMER_GROUP_DESCRIBE, "consumer", group, coordinator)
            or self._classic(group, coordinator)
            or self._described(StreamsGroupDescribeRequest, _STREAMS_GROUP_DESCRIBE, "streams", group, coordinator)
            or self._described(ShareGroupDescribeRequest, _SHARE_GROUP_DESCRIBE, SHARE, group, coordinator)
            or _description(group, "", _DEAD, ())
        )

    def _described(
        self, message: Any, api_key: int, protocol: str, group: str, coordinator: int
    ) -> GroupDescription | None:
        """Return None for a group of another protocol, or if the brokers do not support this one."""
        if api_key not in self._manager.broker_version_data.api_versions:
            return None
        found = self.send(message(group_ids=[group], include_authorized_operations=False), coordinator).groups[0]
        if found.error_code in (_GROUP_ID_NOT_FOUND, _UNSUPPORTED_VERSION):
            return None
        if found.error_code != 0:
            raise error_of(found.error_code, found.error_message)
        return _description(group, protocol, found.group_state, found.members)

    def _classic(self, group: str, coordinator: int) -> GroupDescription | None:
        answer = self._client.describe_groups([group], group_coordinator_id=coordinator)[group]
        state = str(answer["group_state"])
        if state == _DEAD:
            return None
        if answer["error"] is not None:
            raise errors.BrokerResponseError(answer["error"])
        described = _description(group, "classic", state, answer["members"])
        return msgspec.structs.replace(described, assignor=str(answer["protocol_data"] or ""))

    def descriptions(self, groups: Collection[str]) -> dict[str, GroupDescription]:
        """Describe each group that this client may describe."""
        found: dict[str, GroupDescription] = {}
        for group in groups:
            with contextlib.suppress(errors.AuthorizationError):
                found[group] = self.describe(group)
        return found

    def committed(self, group: str) -> dict[Partition, int]:
        """Return committed offsets, stable or not: those of an open transaction are not included, nor markers."""
        return self.offsets_and_markers(group)[0]

    def offsets_and_markers(self, group: str) -> tuple[dict[Partition, int], dict[Partition, QueryMarker]]:
        """Return committed offsets as `committed` does, and beside them the markers of a query."""
        offsets: dict[Partition, int] = {}
        markers: dict[Partition, QueryMarker] = {}
        for at, found in self._client.list_group_offsets({group: None})[group].items():
            if found.offset < 0:
                continue
            marker = marker_of(found.offset, found.metadata or "")
            if marker is None:
                offsets[Partition(at.topic, at.partition)] = found.offset
            else:
                markers[Partition(at.topic, at.partition)] = marker
        return offsets, markers

    def truncated(self, group: str, partitions: Collection[Partition]) -> list[TruncatedOffset]:
        """Return partitions whose leader epoch ended before the committed offset: the log was truncated (KIP-320).

        A partition whose leader does not answer now is left out: the worker's client asks again.
        """
        committed = {
            Partition(at.topic, at.partition): (found.offset, found.leader_epoch)
            for at, found in self._client.list_group_offsets({group: None})[group].items()
            if found.offset >= 0 and found.leader_epoch is not None and found.leader_epoch >= 0
        }
        wanted = {at: committed[at][1] for at in partitions if at in committed}
        found: list[TruncatedOffset] = []
        for broker_id in self.broker_ids() if wanted else ():
            for at, epoch, end in self._epoch_ends(broker_id, wanted):
                offset = committed[at][0]
                if end < offset:
                    found.append(
                        TruncatedOffset(topic=at.topic, partition=at.partition, committed=offset, epoch=epoch, end=end)
                    )
        return sorted(found, key=lambda one: (one.topic, one.partition))

    def _epoch_ends(self, broker_id: int, epochs: Mapping[Partition, int]) -> Iterator[tuple[Partition, int, int]]:
        """Return the end of each epoch, of this broker's partitions; -1 if their logs have no epoch so old."""
        message: Any = OffsetForLeaderEpochRequest
        of_topic = message.OffsetForLeaderTopic
        by_topic: defaultdict[str, list[Any]] = defaultdict(list)
        for at, epoch in epochs.items():
            by_topic[at.topic].append(
                of_topic.OffsetForLeaderPartition(partition=at.partition, current_leader_epoch=-1, leader_epoch=epoch)
            )
        answer = self.send(
            message(
                replica_id=-1,
                topics=[of_topic(topic=name, partitions=found) for name, found in by_topic.items()],
                min_version=2,
            ),
            broker_id,
        )
        for topic in answer.topics:
            for partition in topic.partitions:
                at = Partition(topic.topic, partition.partition)
                if partition.error_code == 0:
                    yield at, epochs[at], partition.end_offset

    def alter(self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str]) -> None:
        """Raise ConflictError while the group has members or an open transaction has pending offsets of it."""
        description = self.describe(group)
        if description.members:
            members = ", ".join(f"{member.client_id} on {member.host}" for member in description.members)
            raise ConflictError(
                f"the group {group} is {description.state} and has members ({members}): "
                "stop all of them before you move its offsets"
            )
        pending = self.unstable(group, offsets)
        if pending:
            where = ", ".join(str(at) for at in pending)
            raise ConflictError(
                f"an open transaction has pending offsets of {group} on {where}. Wait for its end, "
                "as it could commit them later"
            )
        answers = self._client.alter_group_offsets(
            group,
            {
                TopicPartition(*at): OffsetAndMetadata(offset, metadata.get(at, ""), -1)
                for at, offset in offsets.items()
            },
        )
        for at, error in answers.items():
            if error is not errors.NoError:
                # A member has joined since: the coordinator itself rejects commits of other clients.
                if error.__name__ in _HAS_MEMBERS:
                    raise ConflictError(f"the group {group} has a member again: stop it before you move its offsets")
                raise error(f"the offset of {at}")

    def unstable(self, group: str, partitions: Collection[Partition]) -> list[Partition]:
        """Return the partitions with pending offsets.

        Requested by name and as "stable" offsets: an answer to "all" omits partitions without a committed offset.
        """
        coordinator = self._manager.run(self._coordinator, group)
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for at in partitions:
            by_topic[at.topic].append(at.partition)
        message: Any = OffsetFetchRequest
        in_group = message.OffsetFetchRequestGroup
        # Version 7 is for one group, 8 for several: the other one's fields are not sent.
        request = message(
            group_id=group,
            topics=[message.OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in by_topic.items()],
            groups=[
                in_group(
                    group_id=group,
                    topics=[
                        in_group.OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in by_topic.items()
                    ],
                )
            ],
            require_stable=True,
            min_version=7,
            max_version=8,
        )
        answer = self.send(request, coordinator)
        found = answer.groups[0] if answer.API_VERSION >= 8 else answer
        if found.error_code != 0:
            raise error_of(found.error_code, f"the offsets of {group}")
        return [
            Partition(topic.name, partition.partition_index)
            for topic in found.topics
            for partition in topic.partitions
            if partition.error_code == _UNSTABLE_OFFSET_COMMIT
        ]

    def _is_consumer_protocol_on(self) -> bool:
        """Check the feature `group.version`: brokers know the messages long before it allows them."""
        return any(feature.name == "group.version" and feature.level >= 1 for feature in self.features())

    async def _versions(self, broker_ids: Collection[int]) -> dict[int, Any]:
        """Connect to all at once, and leave half of the time to other requests if one does not answer."""
        timeout_ms = self.left_ms / 2
        connections: dict[int, Any] = {}
        for broker_id in broker_ids:
            with contextlib.suppress(errors.KafkaError):
                connections[broker_id] = self._manager.get_connection(broker_id, timeout_ms=timeout_ms)
        found: dict[int, Any] = {}
        for broker_id, connection in connections.items():
            with contextlib.suppress(errors.KafkaError):
                await connection
                found[broker_id] = connection.broker_version_data
        return found

    async def _coordinator(self, group: str) -> int:
        return (await self._client._find_coordinator_ids([group]))[group]  # noqa: SLF001 - as `_manager`


def _description(group: str, protocol: str, state: str, members: Collection[Any]) -> GroupDescription:
    def value(member: Any, name: str) -> str:
        return str(cast("dict[str, Any]", member)[name] if isinstance(member, dict) else getattr(member, name))

    return GroupDescription(
        group=group,
        state=state,
        protocol=protocol,
        members=tuple(
            GroupMember(
                member_id=value(member, "member_id"),
                client_id=value(member, "client_id"),
                # Kafka prints Java addresses: /127.0.0.1
                host=value(member, "client_host").removeprefix("/"),
            )
            for member in members
        ),
    )
