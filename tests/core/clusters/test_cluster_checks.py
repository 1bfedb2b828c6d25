"""Checks of a definition against its cluster's report."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.cluster import ClusterFacts, GroupMember, TopicFacts
from app.core.pipelines.pipeline import (
    ErrorHandling,
    FailurePolicy,
    FileSink,
    GroupProtocol,
    ProcessingGuarantee,
    PythonFunction,
    Route,
    StepOperator,
    Steps,
)
from app.core.pipelines.pipeline_checks import check
from app.kit.errors import Problem
from tests.support.definitions import a_definition
from tests.support.queries import QUERY

SOUND = TopicFacts(partitions=4, replication_factor=3, min_insync_replicas=2)


def facts(**changes: Any) -> ClusterFacts:
    fields: dict[str, Any] = {
        "cluster_id": "kafka-1",
        "broker_version": (4, 3),
        "offers_consumer_protocol": True,
        "topics": {"flights": SOUND, "delayed": SOUND},
        "transaction_max_timeout_ms": 900_000,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        **changes,
    }
    return ClusterFacts(**fields)


def problems(found: ClusterFacts, **changes: Any) -> list[Problem]:
    return check(a_definition(**changes), name="p", facts=found, others=[], allowed=AllowedOptions())


def only(found: ClusterFacts, **changes: Any) -> Problem:
    all_found = problems(found, **changes)
    assert len(all_found) == 1, all_found
    return all_found[0]


def test_a_sound_cluster_has_no_complaints() -> None:
    assert problems(facts()) == []


def test_a_cluster_that_says_nothing_but_its_topics_is_no_problem() -> None:
    assert problems(ClusterFacts(topics={"flights": SOUND, "delayed": SOUND})) == []


@pytest.mark.parametrize("version", [(0, 11), (2, 4)])
def test_a_broker_older_than_2_5_is_refused_with_both_versions(version: tuple[int, int]) -> None:
    problem = only(facts(broker_version=version))
    assert problem.field == "cluster"
    assert f"Kafka {version[0]}.{version[1]}" in problem.message
    assert "needs 2.5 or newer" in problem.message
    assert not problem.is_warning


@pytest.mark.parametrize("version", [(2, 5), (3, 9), (4, 0)])
def test_newer_brokers_are_fine(version: tuple[int, int]) -> None:
    assert problems(facts(broker_version=version)) == []


def test_kip_848_needs_a_cluster_that_offers_it() -> None:
    problem = only(facts(offers_consumer_protocol=False), group_protocol=GroupProtocol.CONSUMER)
    assert problem.field == "group_protocol"
    assert "use `classic`" in problem.message
    assert problems(facts(offers_consumer_protocol=False)) == []
    assert problems(facts(offers_consumer_protocol=None), group_protocol=GroupProtocol.CONSUMER) == []


def test_an_unknown_source_is_refused_at_its_own_field_with_the_way_out() -> None:
    problem = only(facts(), source_topics=("flights", "fligths"))
    assert problem.field == "source_topics.1"
    assert "The topic `fligths` does not exist on the cluster `kafka-1`" in problem.message
    assert "kafka-topics.sh --create --topic fligths" in problem.message


def test_unknown_sinks_routes_and_dead_letter_topics_are_refused_at_their_fields() -> None:
    found = problems(
        facts(),
        sink_topic="sink",
        transform=Steps(steps=(Route(field="a", operator=StepOperator.EXISTS, topic="side"),)),
        errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="dead"),
    )
    assert [problem.field for problem in found] == [
        "sink_topic",
        "transform.steps.0.topic",
        "errors.dead_letter_topic",
    ]


@pytest.mark.parametrize(
    ("instances", "tasks", "field", "idle"), [(3, 2, "tasks_per_instance", 2), (5, 1, "instances", 1)]
)
def test_more_tasks_than_partitions_is_a_warning_that_counts_the_idle_ones(
    instances: int, tasks: int, field: str, idle: int
) -> None:
    problem = only(facts(), instances=instances, tasks_per_instance=tasks)
    assert problem.is_warning
    assert problem.field == field
    assert f"{instances * tasks} tasks share 4 partitions: {idle} of them" in problem.message


def test_the_partitions_of_all_sources_count() -> None:
    topics = {"flights": SOUND, "weather": SOUND, "delayed": SOUND}
    assert problems(facts(topics=topics), source_topics=("flights", "weather"), instances=8) == []


@pytest.mark.parametrize(
    ("topic", "part"),
    [
        (TopicFacts(partitions=1, replication_factor=1, min_insync_replicas=1), "has one replica"),
        (TopicFacts(partitions=1, replication_factor=3, min_insync_replicas=1), "min.insync.replicas=1"),
        (TopicFacts(partitions=1, replication_factor=2, min_insync_replicas=2), "as many replicas"),
    ],
)
def test_a_sink_that_may_lose_or_refuse_records_is_a_warning(topic: TopicFacts, part: str) -> None:
    problem = only(facts(topics={"flights": SOUND, "delayed": topic}))
    assert problem.field == "sink_topic"
    assert problem.is_warning
    assert part in problem.message


@pytest.mark.parametrize(("topic", "field"), [("flights", "source_topics.0"), ("delayed", "sink_topic")])
def test_a_topic_whose_records_an_unclean_election_may_lose_is_a_warning(topic: str, field: str) -> None:
    unclean = structs.replace(SOUND, unclean_leader_election=True)
    problem = only(facts(topics={"flights": SOUND, "delayed": SOUND, topic: unclean}))
    assert (problem.field, problem.is_warning) == (field, True)
    assert f"`{topic}` has unclean.leader.election.enable=true" in problem.message


COMPACTED = structs.replace(SOUND, compacts=True, deletes=False)
KEPT = structs.replace(SOUND, compacts=False, deletes=True)
FUNCTION = PythonFunction(function="flights", file_name="flights.py", sha256="0" * 64)
DEAD_LETTERS = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="dead")
LATE = Route(field="delay", operator=StepOperator.GE, value=15, topic="late")


def about_keys(**changes: Any) -> list[Problem]:
    topics = {"flights": KEPT, "delayed": KEPT, "late": KEPT, "dead": KEPT, **changes.pop("topics")}
    return [one for one in problems(facts(topics=topics), **changes) if "without a key" in one.message]


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize(
    ("topic", "field", "changes"),
    [
        ("delayed", "sink_topic", {}),
        ("late", "transform.steps.0.topic", {"transform": Steps(steps=(LATE,))}),
        ("dead", "errors.dead_letter_topic", {"errors": DEAD_LETTERS}),
        ("dead", "errors.dead_letter_topic", {"errors": DEAD_LETTERS, "transform": FUNCTION}),
    ],
)
def test_a_compacted_output_that_may_get_records_without_keys_is_a_warning(
    topic: str, field: str, changes: dict[str, Any], policy: str
) -> None:
    (problem,) = about_keys(topics={topic: structs.replace(COMPACTED, deletes="delete" in policy)}, **changes)
    assert (problem.field, problem.is_warning) == (field, True)
    assert f"`{topic}` is compacted" in problem.message
    assert "records of `flights` may have none" in problem.message


def test_records_of_a_compacted_source_have_keys_as_long_as_they_are_only_passed_on() -> None:
    topics = {"flights": COMPACTED, "delayed": COMPACTED, "dead": COMPACTED}
    assert about_keys(topics=topics, errors=DEAD_LETTERS) == []
    assert about_keys(topics=topics, transform=Steps(steps=())) == []
    (problem,) = about_keys(topics=topics, transform=FUNCTION, errors=DEAD_LETTERS)
    assert (problem.field, problem.is_warning) == ("sink_topic", True)
    assert "`flights` may return records without one" in problem.message


def test_one_source_that_is_not_compacted_is_enough_and_one_that_does_not_say_is_named() -> None:
    topics = {"flights": COMPACTED, "more": SOUND, "delayed": COMPACTED}
    (problem,) = about_keys(topics=topics, source_topics=("flights", "more"))
    assert "records of `more` may have none" in problem.message


def test_references_to_files_have_keys_and_a_sink_that_does_not_say_is_not_judged() -> None:
    assert about_keys(topics={"delayed": COMPACTED}, files=FileSink(root="file:///tmp/files")) == []
    assert about_keys(topics={"delayed": SOUND}) == []


def test_a_sink_that_can_take_no_write_is_refused() -> None:
    topic = TopicFacts(partitions=1, replication_factor=2, min_insync_replicas=3)
    problem = only(facts(topics={"flights": SOUND, "delayed": topic}))
    assert not problem.is_warning
    assert "no write can succeed" in problem.message


def test_a_sink_whose_configuration_may_not_be_read_is_not_judged() -> None:
    topic = TopicFacts(partitions=1, replication_factor=3, min_insync_replicas=None)
    assert problems(facts(topics={"flights": SOUND, "delayed": topic})) == []


def test_a_transaction_timeout_past_the_brokers_is_refused() -> None:
    problem = only(facts(transaction_max_timeout_ms=9_999))
    assert problem.field == "transaction_timeout_ms"
    assert "at most 9999 ms (transaction.max.timeout.ms), not 10000" in problem.message
    at_least_once = ProcessingGuarantee.AT_LEAST_ONCE
    assert problems(facts(transaction_max_timeout_ms=9_999), processing_guarantee=at_least_once) == []


def test_brokers_that_look_for_abandoned_transactions_less_often_than_their_timeout_are_a_warning() -> None:
    problem = only(facts(abort_sweep_ms=10_001))
    assert (problem.field, problem.is_warning) == ("transaction_timeout_ms", True)
    assert "every 10001 ms (transaction.abort.timed.out.transaction.cleanup.interval.ms)" in problem.message
    assert "may block readers for 20001 ms" in problem.message
    assert problems(facts(abort_sweep_ms=10_000)) == []
    assert problems(facts(abort_sweep_ms=60_000), processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE) == []


@pytest.mark.parametrize(
    ("session_ms", "part"),
    [(5_999, "at least 6000 ms (group.min.session.timeout.ms)"), (60_001, "at most 60000 ms (group.max.session")],
)
def test_a_session_outside_the_brokers_bounds_is_refused(session_ms: int, part: str) -> None:
    problem = only(facts(group_max_session_timeout_ms=60_000), session_timeout_ms=session_ms)
    assert problem.field == "session_timeout_ms"
    assert part in problem.message


def test_the_classic_bounds_do_not_hold_for_kip_848() -> None:
    assert problems(facts(group_min_session_timeout_ms=20_000), group_protocol=GroupProtocol.CONSUMER) == []


def test_foreign_members_are_a_warning_that_names_one_and_counts_the_rest() -> None:
    members = tuple(GroupMember(member_id=f"m{n}", client_id=f"app-{n}", host="/10.0.0.1") for n in range(3))
    problem = only(facts(foreign_members={"delayed-flights": members}))
    assert problem.field == "group_id"
    assert problem.is_warning
    assert "`app-0` on /10.0.0.1 and 2 more" in problem.message
    assert problems(facts(foreign_members={"another": members, "delayed-flights": ()})) == []


def test_foreign_members_are_an_error_for_a_query_which_the_sink_would_not_start() -> None:
    members = (GroupMember(member_id="m", client_id="app", host="/10.0.0.1"),)
    held = facts(foreign_members={"delayed-flights": members}, assignors={"delayed-flights": "range"})
    (error,) = [problem for problem in problems(held, transform=QUERY) if problem.field == "group_id"]
    assert not error.is_warning
    assert error.message.endswith("does not start beside other members; stop it, or choose another group")


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_members_with_another_assignor_keep_ours_out(assignor: str) -> None:
    members = (GroupMember(member_id="m", client_id="other", host="h"),)
    held = facts(foreign_members={"delayed-flights": members}, assignors={"delayed-flights": assignor})
    (error,) = [problem for problem in problems(held) if not problem.is_warning]
    assert error.field == "group_id"
    assert assignor in error.message
    assert "INCONSISTENT_GROUP_PROTOCOL" in error.message


def test_assignor_of_own_members_or_of_none_is_no_problem() -> None:
    members = (GroupMember(member_id="m", client_id="other", host="h"),)
    same = facts(foreign_members={"delayed-flights": members}, assignors={"delayed-flights": "cooperative-sticky"})
    assert all(problem.is_warning for problem in problems(same))
    assert problems(facts(foreign_members={"delayed-flights": ()}, assignors={"delayed-flights": "range"})) == []


@pytest.mark.parametrize(("deletes", "expected"), [(False, 1), (True, 0), (None, 0)])
def test_deletions_of_a_compacted_source_go_to_every_routed_topic_and_a_warning_says_so(
    deletes: bool | None, expected: int
) -> None:
    source = TopicFacts(partitions=4, replication_factor=3, min_insync_replicas=2, deletes=deletes)
    found = problems(
        facts(topics={"flights": source, "delayed": SOUND, "lost": SOUND}),
        transform=Steps(steps=(Route(field="lost", operator=StepOperator.EXISTS, topic="lost"),)),
    )
    assert [(one.field, one.is_warning) for one in found] == [("transform.steps.0.topic", True)] * expected
    assert all("`flights` is compacted" in one.message for one in found)
