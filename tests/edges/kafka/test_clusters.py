"""A cluster's brokers, limits and topics, and the members of its groups."""

import pytest

from app.core.clusters.brokers import Connection
from app.core.clusters.survey import SETTINGS, feature_lines, setting_lines
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import OLD_KAFKA_JARS
from app.edges.kafka.admin import KafkaBrokers
from tests.conftest import MakeTopic
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hanging import UNVERIFIED
from tests.support.kafka_clients import Members, Protocol, Writer
from tests.support.topics import unique_name

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


async def test_cluster_is_described_with_its_id_and_advertised_brokers(
    brokers: KafkaBrokers, connection: Connection, kafka: KafkaCluster
) -> None:
    found = await brokers.describe_cluster(connection)
    assert found.cluster_id == kafka.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in found.brokers] == kafka.bootstrap_servers.split(",")
    assert found.controller_id in {broker.id for broker in found.brokers}


async def test_facts_tell_the_brokers_version_and_limits(brokers: KafkaBrokers, connection: Connection) -> None:
    facts = await brokers.facts(connection, topics=())
    assert facts.broker_version is not None
    # The embedded broker is a 4.x.
    assert facts.broker_version >= (4, 0)
    assert facts.offers_consumer_protocol is True
    assert facts.group_min_session_timeout_ms == int(TEST_BROKER_SETTINGS["group.min.session.timeout.ms"])
    assert facts.group_max_session_timeout_ms is not None
    assert facts.group_max_session_timeout_ms > int(TEST_BROKER_SETTINGS["group.min.session.timeout.ms"])
    assert facts.transaction_max_timeout_ms == 900_000


async def test_survey_has_versions_features_and_the_settings_of_transactions(
    brokers: KafkaBrokers, connection: Connection, kafka: KafkaCluster
) -> None:
    found = await brokers.survey(connection)
    assert found.cluster_id == kafka.cluster_id
    (broker,) = found.brokers
    assert broker.is_controller
    assert f"{broker.host}:{broker.port}" == kafka.bootstrap_servers
    assert (broker.version or (0, 0)) >= (4, 0)
    assert broker.settings is not None
    assert set(broker.settings) == set(SETTINGS)
    assert broker.settings["transaction.max.timeout.ms"] == "900000"
    levels = {feature.name: feature.level for feature in found.features}
    assert (levels["transaction.version"], levels["group.version"]) == (2, 1)


@pytest.mark.slow
async def test_survey_of_an_old_broker_says_what_it_lacks(brokers: KafkaBrokers) -> None:
    with KafkaCluster.start(jars=OLD_KAFKA_JARS, overrides={**TEST_BROKER_SETTINGS, **UNVERIFIED}) as old:
        found = await brokers.survey({"bootstrap.servers": old.bootstrap_servers})
    (broker,) = found.brokers
    assert broker.version == (3, 9)
    settings = {line.name: line for line in setting_lines(found)}
    assert "Switch it on" in settings["transaction.partition.verification.enable"].advice
    # It came with 4.x.
    assert settings["transaction.two.phase.commit.enable"].values == ()
    features = {line.feature.name: line for line in feature_lines(found)}
    assert features["metadata.version"].feature.level > 0
    assert all(line.feature.level < 2 for line in features.values() if line.feature.name == "transaction.version")


async def test_facts_describe_the_topics_that_exist_and_leave_out_the_others(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3, min_insync_replicas="2")
    facts = await brokers.facts(connection, topics=[topic, unique_name("absent")])
    assert list(facts.topics) == [topic]
    assert facts.topics[topic].partitions == 3
    assert facts.topics[topic].replication_factor == 1
    assert facts.topics[topic].min_insync_replicas == 2


async def test_facts_say_for_how_long_a_topic_keeps_its_records(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    plain, kept = make_topic(), make_topic(retention_ms="-1", retention_bytes="1000", cleanup_policy="compact,delete")
    compacted = make_topic(cleanup_policy="compact")
    facts = await brokers.facts(connection, topics=[plain, kept, compacted])
    # A week, Kafka's own default.
    found = {name: (topic.retention_ms, topic.retention_bytes, topic.deletes) for name, topic in facts.topics.items()}
    assert [facts.topics[name].compacts for name in (plain, kept, compacted)] == [False, True, True]
    assert found[plain] == (604_800_000, -1, True)
    assert found[kept] == (-1, 1_000, True)
    assert found[compacted][2] is False


async def test_all_topics_are_listed_but_internal_ones(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(partitions=2)
    writer.begin(topic, records=1)
    writer.commit()
    found = await brokers.topics(connection)
    assert found[topic].partitions == 2
    # The transaction above has made __transaction_state.
    assert not [name for name in found if name.startswith("__")]


@both_protocols
async def test_members_of_fenceline_and_others_are_distinguished(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(partitions=2), unique_name("g")
    members.join(group, topic, protocol=protocol, client_id="fenceline-orders-1")
    members.join(group, topic, protocol=protocol, client_id="stranger")
    facts = await brokers.facts(connection, topics=(), groups=[group], own_client_ids=["fenceline-orders-"])
    assert [member.client_id for member in facts.foreign_members[group]] == ["stranger"]
    everybody = await brokers.facts(connection, topics=(), groups=[group])
    assert {member.client_id for member in everybody.foreign_members[group]} == {"fenceline-orders-1", "stranger"}
