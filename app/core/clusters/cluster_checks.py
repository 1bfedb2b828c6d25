"""Checks of a definition against its cluster: the brokers' report and the requirements of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.clusters.survey import ABORT_SWEEP
from app.core.pipelines.pipeline import (
    GroupProtocol,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonFunction,
    Route,
    Steps,
)
from app.kit.errors import Problem

OLDEST_BROKER = (2, 5)
"""KIP-447, with the broker's check of the group's generation when offsets join a transaction, is in 2.5 and later."""

OUR_ASSIGNOR = "cooperative-sticky"
"""The assignor of tasks in a classic group (workers/loop/client_config.py)."""


def check(definition: PipelineDefinition, facts: ClusterFacts, *, outputs: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems that need the cluster's report. `outputs`: the topics written to, by the field of each."""
    yield from _check_broker(definition, facts)
    yield from _check_sources(definition, facts)
    for field, topic in outputs.items():
        yield from _check_output(field, topic, facts)
        yield from _check_keys(field, topic, definition, facts)
    yield from _check_tombstones(definition, facts)
    yield from _check_timeouts(definition, facts)
    yield from _check_members(definition, facts)


def _check_broker(definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    version = facts.broker_version
    if version is not None and version < OLDEST_BROKER:
        message = (
            f"The oldest broker of this cluster is Kafka {version[0]}.{version[1]}; "
            f"Fenceline needs {OLDEST_BROKER[0]}.{OLDEST_BROKER[1]} or newer, which checks the group's generation "
            "when offsets are committed with a transaction. Upgrade the brokers"
        )
        yield Problem(field="cluster", message=message)
    if definition.group_protocol is GroupProtocol.CONSUMER and facts.offers_consumer_protocol is False:
        message = (
            "This cluster does not offer the group protocol `consumer` (KIP-848, Kafka 4.0 and newer; the feature "
            "`group.version` and the brokers' `group.coordinator.rebalance.protocols`); use `classic`"
        )
        yield Problem(field="group_protocol", message=message)


def _check_sources(definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    unknown = [(index, topic) for index, topic in enumerate(definition.source_topics) if topic not in facts.topics]
    for index, topic in unknown:
        yield Problem(field=f"source_topics.{index}", message=_unknown(topic, facts))
    for index, topic in enumerate(definition.source_topics):
        yield from _check_election(f"source_topics.{index}", topic, facts.topics.get(topic))
    if definition.dataframe is not None:
        return  # its writers have no partitions of the sources
    partitions = sum(facts.topics[topic].partitions for topic in definition.source_topics if topic in facts.topics)
    tasks = definition.instances * definition.tasks_per_instance
    if not unknown and 0 < partitions < tasks:
        message = (
            f"{tasks} tasks share {partitions} partition{'s' if partitions > 1 else ''}: {tasks - partitions} of them "
            "will be idle. Run fewer tasks, or give the source topic more partitions"
        )
        field = "tasks_per_instance" if definition.tasks_per_instance > 1 else "instances"
        yield Problem(field=field, message=message, is_warning=True)


def _check_output(field: str, topic: str, facts: ClusterFacts) -> Iterator[Problem]:
    found = facts.topics.get(topic)
    if found is None:
        yield Problem(field=field, message=_unknown(topic, facts))
        return
    if (message := durability(topic, found)) is not None:
        yield Problem(field=field, message=message, is_warning=True)
    yield from _check_election(field, topic, found)
    if (message := too_few_replicas(topic, found)) is not None:
        yield Problem(field=field, message=message)


def too_few_replicas(topic: str, found: TopicFacts) -> str | None:
    """Return why no write can succeed, if the topic requires more in-sync replicas than it has replicas."""
    if found.min_insync_replicas is None or found.min_insync_replicas <= found.replication_factor:
        return None
    return (
        f"`{topic}` requires {found.min_insync_replicas} in-sync replicas (min.insync.replicas) and has only "
        f"{found.replication_factor}: no write can succeed. Lower the one or raise the other"
    )


def _check_tombstones(definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    """Yield a warning for tombstones of a compacted source: a route needs the value, and a tombstone has none."""
    steps = definition.transform.steps if isinstance(definition.transform, Steps) else ()
    routes = [index for index, step in enumerate(steps) if isinstance(step, Route)]
    compacted = [
        topic
        for topic in definition.source_topics
        if (found := facts.topics.get(topic)) is not None and found.deletes is False
    ]
    if routes and compacted:
        message = (
            f"`{compacted[0]}` is compacted: its records without a value go to the sink and to every routed topic, "
            "since any of these may have the key"
        )
        yield Problem(field=f"transform.steps.{routes[0]}.topic", message=message, is_warning=True)


def _check_keys(field: str, topic: str, definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    """Yield warnings for records without a key, which a broker refuses in a compacted topic.

    References to files have keys, and so has every record of a compacted source if it is only passed on.
    """
    found = facts.topics.get(topic)
    if found is None or not found.compacts or (definition.files is not None and topic == definition.sink_topic):
        return
    query = definition.dataframe
    sources = [one for one in definition.source_topics if (known := facts.topics.get(one)) and not known.compacts]
    if isinstance(definition.transform, PythonFunction) and topic != definition.errors.dead_letter_topic:
        who = f"`{definition.transform.function}` may return records without one"
    elif query is not None:
        who = "rows of the query may have none"
    elif sources:
        who = f"records of `{sources[0]}` may have none, and keys pass unchanged"
    else:
        return
    message = (
        f"`{topic}` is compacted (cleanup.policy): records without a key are refused by the broker. Here {who}. "
        "Give every record a key, or set cleanup.policy=delete"
    )
    yield Problem(field=field, message=message, is_warning=True)


def _check_election(field: str, topic: str, found: TopicFacts | None) -> Iterator[Problem]:
    """Yield a warning for unclean leader election: records are lost, and others get their offsets."""
    if found is not None and (message := unclean_election(topic, found)) is not None:
        yield Problem(field=field, message=message, is_warning=True)


def unclean_election(topic: str, found: TopicFacts) -> str | None:
    """Return the effect of unclean leader election, if the topic allows it."""
    if not found.unclean_leader_election:
        return None
    return (
        f"`{topic}` has unclean.leader.election.enable=true: acknowledged records are lost if a replica without "
        "them becomes leader. Set it to false"
    )


def durability(topic: str, found: TopicFacts) -> str | None:
    """Return the effect of the loss of one broker on acknowledged records, or on writes."""
    replicas, least = found.replication_factor, found.min_insync_replicas
    if replicas == 1:
        return (
            f"`{topic}` has one replica: acknowledged records are lost with its broker's disk. After a restart of that "
            "broker within a transaction, aborted records may be visible, and committed ones be lost (Kafka 4.3). "
            "If that matters, give it 3 replicas and min.insync.replicas=2"
        )
    if least == 1:
        return (
            f"`{topic}` has min.insync.replicas=1: an acknowledged record may be on a single broker and lost with it. "
            f"Set it to 2 of its {replicas} replicas"
        )
    if least == replicas:
        return (
            f"`{topic}` has min.insync.replicas={least} and as many replicas: the pipeline stops while any one broker "
            "that has them is down"
        )
    return None


def _check_timeouts(definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    most_ms = facts.transaction_max_timeout_ms
    is_transactional = definition.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE
    if is_transactional and most_ms is not None and definition.transaction_timeout_ms > most_ms:
        message = (
            f"The brokers allow transactions of at most {most_ms} ms (transaction.max.timeout.ms), "
            f"not {definition.transaction_timeout_ms}"
        )
        yield Problem(field="transaction_timeout_ms", message=message)
    sweep_ms = facts.abort_sweep_ms
    if is_transactional and sweep_ms is not None and sweep_ms > definition.transaction_timeout_ms:
        message = (
            f"The brokers check for timed-out transactions every {sweep_ms} ms ({ABORT_SWEEP}). A dead task may block "
            f"readers for {definition.transaction_timeout_ms + sweep_ms} ms. Lower the brokers' setting to "
            f"{definition.transaction_timeout_ms} or less"
        )
        yield Problem(field="transaction_timeout_ms", message=message, is_warning=True)
    if definition.group_protocol is GroupProtocol.CONSUMER:
        return
    session_ms = definition.session_timeout_ms
    least_ms, most_ms = facts.group_min_session_timeout_ms, facts.group_max_session_timeout_ms
    if least_ms is not None and session_ms < least_ms:
        message = (
            f"The brokers allow sessions of at least {least_ms} ms (group.min.session.timeout.ms), not {session_ms}"
        )
        yield Problem(field="session_timeout_ms", message=message)
    if most_ms is not None and session_ms > most_ms:
        message = f"The brokers allow sessions of at most {most_ms} ms (group.max.session.timeout.ms), not {session_ms}"
        yield Problem(field="session_timeout_ms", message=message)


def _check_members(definition: PipelineDefinition, facts: ClusterFacts) -> Iterator[Problem]:
    members = facts.foreign_members.get(definition.group_id, ())
    is_query = definition.dataframe is not None
    if members:
        first = members[0]
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        effect = "A query does not start beside other members" if is_query else "It would take a part of the records"
        message = (
            f"The group `{definition.group_id}` has a member that Fenceline did not start: `{first.client_id}` on "
            f"{first.host}{more}. {effect}; stop it, or choose another group"
        )
        yield Problem(field="group_id", message=message, is_warning=not is_query)
    assignor = facts.assignors.get(definition.group_id, "")
    is_classic = definition.group_protocol is GroupProtocol.CLASSIC and not is_query
    if members and is_classic and assignor not in ("", OUR_ASSIGNOR):
        message = (
            f"The members of the group `{definition.group_id}` use the assignor `{assignor}`, Fenceline's is "
            f"`{OUR_ASSIGNOR}`: brokers refuse its members (INCONSISTENT_GROUP_PROTOCOL). "
            "Stop the others, or choose another group"
        )
        yield Problem(field="group_id", message=message)


def _unknown(topic: str, facts: ClusterFacts) -> str:
    where = f" `{facts.cluster_id}`" if facts.cluster_id else ""
    if (similar := facts.similar.get(topic)) is not None:
        return f"The topic `{topic}` does not exist on the cluster{where}; did you mean `{similar}`?"
    return (
        f"The topic `{topic}` does not exist on the cluster{where}, or may not be seen with the cluster's credentials. "
        f"Create it first: kafka-topics.sh --create --topic {topic} --partitions N --bootstrap-server …"
    )
