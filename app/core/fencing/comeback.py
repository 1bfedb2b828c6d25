"""Decide whether the same application has its transactional id again, without any report from it.

Two facts show it:
  the shape of the id     Kafka Streams (`exactly_once_v2`) calls a thread's producer
                          `<application.id>-<process id>-<thread>`. The process id is drawn at random and kept in the
                          state directory: only the same process, or its restart from that directory, has it again.
  the group's journal     the only member of the group that stores the id's offsets left the group and rejoined it:
                          the same client id and host, or the same `group.instance.id`.
A process with a copy of the state directory has the same id as well. Then two members of one thread alternate in the
group, and `takeover` is the better cause.
Source: Kafka, StreamsProducer and StateDirectory.initializeProcessId (4.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.core.fencing.evidence import ClientWord, CoordinatorRecord, Evidence, MemberRecord, merged
from app.core.fencing.fencing_event import Case, FencingKey, FencingKind
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import RecordedState

NEAR_MS = 5_000
"""Two brokers write the records of a group and of an id; related records are at most this far apart."""

_STREAMS = re.compile(r"(?P<application>.+)-(?P<process>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?P<thread>\d+)")


class StreamsId(NamedTuple):
    """The parts of a transactional id of Kafka Streams. The application id is also the group's name."""

    application: str
    process: str
    thread: str

    def is_client(self, client_id: str) -> bool:
        """Return True if a member with this client id belongs to the thread, unless the application chooses its client
        ids.
        """
        return self.process in client_id and f"-StreamThread-{self.thread}-" in f"{client_id}-"


def streams_id(transactional_id: str) -> StreamsId | None:
    """Return the parts of the id; None if it is not one of Kafka Streams."""
    found = _STREAMS.fullmatch(transactional_id)
    return None if found is None else StreamsId(found["application"], found["process"], found["thread"])


class Comeback(msgspec.Struct, frozen=True, kw_only=True):
    """sentence: the returned application, with the evidence. is_doubtful: two processes alternate, so takeover is more
    likely.
    """

    sentence: str
    is_doubtful: bool = False


def groups_by_producer(groups: Iterable[LiveGroup]) -> dict[int, list[str]]:
    """Return the names of the groups with stored or pending offsets of each producer id."""
    found: dict[int, list[str]] = {}
    for group in groups:
        stored = (*group.offsets.values(), *group.pending.values())
        for producer_id in {one.producer_id for one in stored if one.producer_id >= 0}:
            found.setdefault(producer_id, []).append(group.group)
    return found


def with_members(
    case: Case,
    groups: Mapping[str, LiveGroup],
    by_producer: Callable[[int], Sequence[str]],
    *,
    shift_ms: Callable[[int], int] = lambda _: 0,
) -> Case:
    """Add the records about members in the group's journal up to that time; unchanged without any.

    by_producer: called only for an id whose shape does not name its group.
    shift_ms: by partition of the group's journal, the difference of its broker's clock to the case's.
    """
    records = [one.record for one in case.evidence if isinstance(one, CoordinatorRecord)]
    if case.key.kind is not FencingKind.EPOCH or not any(record.status.is_abort for record in records):
        return case
    streams = streams_id(case.key.transactional_id)
    names = by_producer(case.key.producer_id) if streams is None else [streams.application]
    until_ms = max(record.timestamp_ms for record in records) + NEAR_MS
    found = [
        MemberRecord(
            group=name,
            member_id=change.member_id,
            instance_id=change.instance_id,
            client_id=change.client_id,
            host=change.host.removeprefix("/"),
            has_left=change.has_left,
            members=change.members,
            partition=groups[name].partition,
            offset=change.journal_offset,
            at_ms=change.at_ms + shift_ms(groups[name].partition),
        )
        for name in names
        if name in groups
        for change in groups[name].changes
        if change.at_ms + shift_ms(groups[name].partition) <= until_ms
        and (streams is None or streams.is_client(change.client_id))
    ]
    return Case(case.key, merged(case.evidence, found)) if found else case


def comeback_of(
    key: FencingKey, evidence: Sequence[Evidence], *, own: RecordedState | None, init: RecordedState | None
) -> Comeback | None:
    """Return the application's return; None without evidence of it, or if the old producer continued.

    own: the old producer's last record. init: the answer to its successor.
    """
    if own is None or any(isinstance(one, ClientWord) for one in evidence):
        return None
    until_ms = None if init is None else init.timestamp_ms + NEAR_MS
    members = [one for one in evidence if isinstance(one, MemberRecord) and (until_ms is None or one.at_ms <= until_ms)]
    since = [one for one in members if one.at_ms >= own.timestamp_ms - NEAR_MS]
    streams = streams_id(key.transactional_id)
    if streams is not None:
        return Comeback(
            sentence=f"The application {streams.application} returned. Only its process {streams.process}, or a "
            f"restart from the same state directory, has this id.{_in_group(since)}",
            is_doubtful=_take_turns(members),
        )
    left, joined = _left_and_joined(since)
    if init is None or left is None or joined is None or joined.members != 1:
        return None
    if any(_identity(one) != _identity(joined) for one in since):
        return None
    return Comeback(sentence=f"The same application returned.{_in_group(since)}")


def _identity(one: MemberRecord) -> tuple[str, ...]:
    return (one.group, one.instance_id) if one.instance_id else (one.group, one.client_id, one.host)


def _left_and_joined(since: Sequence[MemberRecord]) -> tuple[MemberRecord | None, MemberRecord | None]:
    """Return the first record of a member that left, and the next record of one that joined."""
    left = next((one for one in since if one.has_left), None)
    later = [one for one in since if left is not None and not one.has_left and one.offset >= left.offset]
    return left, later[0] if later else None


def _in_group(since: Sequence[MemberRecord]) -> str:
    """Return the evidence in the group's journal, as a sentence with a space before it."""
    left, joined = _left_and_joined(since)
    if left is not None and joined is not None:
        who = f"{joined.client_id} on {joined.host}"
        again = " with the same member id, so its process continued" if left.member_id == joined.member_id else ""
        return f" Member {who} left group {joined.group} and rejoined it{again}."
    joined = next((one for one in since if not one.has_left), None)
    if joined is None:
        return ""
    return f" Its member {joined.client_id} on {joined.host} had just joined group {joined.group}."


def _take_turns(members: Sequence[MemberRecord]) -> bool:
    """Return True if one member left and rejoined while another one of the same thread stayed."""
    present: set[str] = set()
    swapped_at_ms: int | None = None
    has_swapped = False
    for one in members:
        if one.has_left:
            present.discard(one.member_id)
            swapped_at_ms = one.at_ms if present else None
        else:
            is_soon = swapped_at_ms is not None and one.at_ms - swapped_at_ms <= NEAR_MS
            has_swapped = has_swapped or (is_soon and bool(present))
            present.add(one.member_id)
    return has_swapped and len(present) > 1
