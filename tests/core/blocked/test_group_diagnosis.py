"""A group: readable lag, blocked lag, markers, and pending offsets."""

from __future__ import annotations

import msgspec

from app.core.blocked.diagnosis import AdviceVerdict, AnswerSource, Diagnosis, Explanation
from app.core.blocked.facts import GroupFacts, GroupPosition, LogEnds, PartitionFacts, PendingOffset, Refused
from app.core.blocked.group_diagnosis import diagnose_group
from app.core.blocked.stretch import LogStretch
from app.core.clusters.partition import Partition
from app.core.lag.movement import LagState
from app.core.lag.report import PartitionLag
from tests.core.blocked.answers import NOW_MS, asked, held, known, opened, read_through


def group(*positions: GroupPosition, members: int = 2, offsets: PartitionFacts | None = None) -> GroupFacts:
    return GroupFacts(
        group="billing",
        state="Stable" if members else "Empty",
        members=members,
        described_at_ms=NOW_MS - 400,
        offsets_at_ms=NOW_MS - 350,
        positions=positions,
        offsets_partition=offsets,
    )


def only(found: Explanation) -> Diagnosis:
    (one,) = found.partitions
    return one


def test_behind_an_open_transaction() -> None:
    found = diagnose_group(group(GroupPosition(partition=held(known()), committed=10)), asked())
    assert found.verdict is AdviceVerdict.WAIT
    assert found.headline == "billing has not read 1 of 1 partition to the end: blocked, ends by itself (orders-0)."
    assert found.links[0].sentence == "the group billing is Stable with 2 members"


def test_group_with_readable_lag_is_behind() -> None:
    position = GroupPosition(partition=held(known()), committed=4, ahead=LogStretch(4, 10, records=5, markers=1))
    found = only(diagnose_group(group(position), asked()))
    assert found.verdict is AdviceVerdict.BEHIND
    assert found.headline == (
        "5 records of orders-0 are readable and not committed. 4 more offsets are behind an open transaction."
    )


def test_group_that_is_behind_and_moves_is_healthy() -> None:
    """A consumer is always some records behind: that is no reason to look at it."""
    position = GroupPosition(partition=held(known()), committed=4, ahead=LogStretch(4, 10, records=5, markers=1))
    moving = PartitionLag(at=Partition("orders", 0), state=LagState.HEALTHY, committed=4, lag_records=37, rate=400.0)
    context = msgspec.structs.replace(asked(), lag={moving.at: moving})
    found = diagnose_group(group(position), context)
    assert only(found).verdict is AdviceVerdict.FREE
    assert found.headline == "billing is healthy: 37 records behind, reading 400/s."
    slow = msgspec.structs.replace(moving, state=LagState.SLOW)
    judged = only(diagnose_group(group(position), msgspec.structs.replace(context, lag={slow.at: slow})))
    assert judged.verdict is AdviceVerdict.BEHIND
    assert "By the server's samples it is slow" in judged.advice


def test_one_check_does_not_judge_whether_a_group_advances() -> None:
    """Without a server, lag of a healthy consumer and of a stopped one look the same."""
    position = GroupPosition(partition=read_through(held(None)), committed=4, ahead=LogStretch(4, 14, records=10))
    found = diagnose_group(group(position), asked())
    assert found.headline == "billing has not read 1 of 1 partition to the end: readable lag (orders-0)."
    assert "One check cannot tell whether it advances" in only(found).advice


def test_offsets_behind_the_lso_need_an_open_transaction_of_the_leader() -> None:
    def said(partition: PartitionFacts) -> str:
        position = GroupPosition(partition=partition, committed=4, ahead=LogStretch(4, 10, records=6))
        return only(diagnose_group(group(position), asked())).headline

    readable = "6 records of orders-0 are readable and not committed."
    assert said(held(known())) == f"{readable} 4 more offsets are behind an open transaction."
    assert said(held(None, rows=())) == readable
    assert said(held(known(), ended_since=True)) == readable
    assert said(held(known(), rows=(opened(start=12),))) == readable
    refused = Refused("DescribeProducers", "TOPIC_AUTHORIZATION_FAILED", "READ on orders")
    assert said(held(None, rows=refused)) == (
        f"{readable} 4 more offsets come after the last stable offset; whether a transaction is open there "
        "is not known."
    )


def test_group_without_members() -> None:
    position = GroupPosition(partition=read_through(held(None)), committed=4, ahead=LogStretch(4, 14, records=10))
    found = only(diagnose_group(group(position, members=0), asked()))
    assert found.verdict is AdviceVerdict.NO_MEMBERS
    assert "start a consumer" in found.advice


def test_group_of_a_query_is_told_of_its_batches_and_driver() -> None:
    position = GroupPosition(partition=read_through(held(None)), committed=4, ahead=LogStretch(4, 14, records=10))
    running, ended = (msgspec.structs.replace(group(position, members=count), is_query=True) for count in (1, 0))
    found = only(diagnose_group(running, asked()))
    assert found.verdict is AdviceVerdict.BEHIND
    assert "duration of its batches" in found.advice
    assert "not assigned" not in found.advice
    assert "its query has no driver" in only(diagnose_group(ended, asked())).advice


def test_lag_of_markers_and_aborted_records_needs_no_action() -> None:
    position = GroupPosition(
        partition=read_through(held(None)), committed=11, ahead=LogStretch(11, 14, aborted=2, markers=1)
    )
    found = only(diagnose_group(group(position), asked()))
    assert found.verdict is AdviceVerdict.ONLY_MARKERS
    assert found.links[0].sentence == "from offset 11 on there are 1 marker and 2 aborted records"


def test_lag_that_was_read_in_part_is_readable() -> None:
    position = GroupPosition(
        partition=read_through(held(None)), committed=0, ahead=LogStretch(0, 3, aborted=3, is_whole=False)
    )
    assert only(diagnose_group(group(position), asked())).verdict is AdviceVerdict.BEHIND


def test_caught_up() -> None:
    found = diagnose_group(group(GroupPosition(partition=read_through(held(None)), committed=14)), asked())
    assert found.verdict is AdviceVerdict.FREE
    assert found.headline == "billing has read all readable records of 1 partition."


def pending(offsets: PartitionFacts | None) -> GroupFacts:
    position = GroupPosition(
        partition=read_through(held(None)),
        committed=3,
        is_unstable=True,
        pending=(PendingOffset(4015, 2, 8),) if offsets else (),
    )
    return group(position, offsets=offsets)


def offsets_partition(facts: PartitionFacts) -> PartitionFacts:
    return msgspec.structs.replace(facts, topic="__consumer_offsets", partition=12)


def test_chain_leads_from_a_pending_offset_to_its_producer() -> None:
    found = only(diagnose_group(pending(offsets_partition(held(known()))), asked()))
    assert (found.subject, found.verdict) == ("orders-0", AdviceVerdict.WAIT)
    assert "A new owner of orders-0 cannot start" in found.headline
    assert [link.source for link in found.links] == [
        AnswerSource.OFFSETS,
        AnswerSource.OFFSETS_LOG,
        AnswerSource.COORDINATORS,
    ]
    assert "has offset 8 pending" in found.links[1].sentence


def test_pending_offset_of_a_hanging_transaction_is_ended_in_its_journal_partition() -> None:
    found = only(diagnose_group(pending(offsets_partition(held(None))), asked()))
    assert found.verdict is AdviceVerdict.END
    assert found.commands[0].startswith("fenceline end __consumer_offsets 12 ")


def test_pending_offset_without_a_known_producer_names_the_missing_permission() -> None:
    refused = Refused("Fetch of __consumer_offsets-12", "TOPIC_AUTHORIZATION_FAILED", "READ on __consumer_offsets")
    facts = msgspec.structs.replace(pending(None), pending_refused=refused)
    found = only(diagnose_group(facts, asked()))
    assert found.verdict is AdviceVerdict.CANNOT_TELL
    assert "READ on __consumer_offsets" in found.advice


def test_pending_offset_that_was_completed_during_the_check_is_unsettled() -> None:
    found = only(diagnose_group(pending(offsets_partition(held(known(), ended_since=True))), asked()))
    assert found.verdict is AdviceVerdict.UNSETTLED


def test_worst_partition_comes_first() -> None:
    free = msgspec.structs.replace(read_through(held(None)), partition=1)
    positions = (GroupPosition(partition=free, committed=14), GroupPosition(partition=held(None), committed=10))
    found = diagnose_group(group(*positions), asked())
    assert found.verdict is AdviceVerdict.END
    assert [one.subject for one in found.partitions] == ["orders-0", "orders-1"]


def test_group_without_committed_offsets() -> None:
    assert "has no committed offsets" in diagnose_group(group(), asked()).headline


def test_partition_without_a_committed_offset_gets_its_own_diagnosis() -> None:
    facts = msgspec.structs.replace(held(known()), ends=LogEnds(0, 10, 14))
    assert only(diagnose_group(group(GroupPosition(partition=facts)), asked())).verdict is AdviceVerdict.WAIT
