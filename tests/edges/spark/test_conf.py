"""The settings with which an application is submitted."""

from __future__ import annotations

import msgspec
import pytest

from app.core.allow_lists.spark_options import LOCKED
from app.core.pipelines.pipeline import (
    DataframeQuery,
    Identity,
    PipelineDefinition,
    SparkSettings,
    StateStore,
    Transform,
)
from app.edges.spark import conf

QUERY = DataframeQuery(streams=(), checkpoint="/c", sql="SELECT 1", executor_cores=2, shuffle_partitions=6)


def effective(
    master: str = "spark://127.0.0.1:7077",
    own: dict[str, str] | None = None,
    transform: Transform = Identity(),  # noqa: B008 - immutable
) -> conf.Submission:
    definition = PipelineDefinition(
        cluster="c",
        source_topics=("in",),
        group_id="g",
        sink_topic="out",
        transform=transform,
        tasks_per_instance=3,
        spark=SparkSettings(master=master, executor_memory_mb=700, conf=own or {}),
    )
    return conf.effective(
        definition,
        application_name="fenceline r-0-1",
        python="/py",
        driver_python="/driver-py",
        local_dir="/tmp/x",  # noqa: S108
    )


def test_the_whole_configuration() -> None:
    """All of it in one place, so that a change of any line is seen in review."""
    assert effective().conf == {
        "spark.app.name": "fenceline r-0-1",
        "spark.cores.max": "3",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": '-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Djava.io.tmpdir=/tmp/x"',
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.excludeOnFailure.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir=.",
        "spark.executor.heartbeatInterval": "10s",
        "spark.executor.memory": "700m",
        "spark.local.dir": "/tmp/x",  # noqa: S108
        "spark.log.level": "WARN",
        "spark.network.timeout": "120s",
        "spark.pyspark.driver.python": "/driver-py",
        "spark.pyspark.python": "/py",
        "spark.python.worker.reuse": "false",
        "spark.speculation": "false",
        "spark.submit.deployMode": "client",
        "spark.task.cpus": "1",
        "spark.task.maxFailures": "1000000",
        "spark.task.reaper.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
    }


def test_the_whole_configuration_of_a_query() -> None:
    found = effective(transform=QUERY).conf
    same = effective().conf
    assert {key: value for key, value in found.items() if same.get(key) != value} == {
        "spark.cores.max": "2",
        "spark.driver.extraJavaOptions": '"-Djava.io.tmpdir=/tmp/x"',
        "spark.driver.memory": "1g",
        "spark.executor.cores": "2",
        "spark.executor.extraJavaOptions": "-Djava.io.tmpdir=.",
        "spark.python.worker.reuse": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "6",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.task.maxFailures": "4",
    }
    assert same.keys() - found.keys() == {"spark.excludeOnFailure.enabled"}


def test_state_in_memory_is_sparks_own_provider() -> None:
    in_memory = msgspec.structs.replace(QUERY, state_store=StateStore.MEMORY)
    provider = effective(transform=in_memory).conf["spark.sql.streaming.stateStore.providerClass"]
    assert provider.endswith(".HDFSBackedStateStoreProvider")


def test_a_local_query_has_its_cores_and_sparks_retries() -> None:
    assert effective("local", transform=QUERY).master == "local[2,4]"
    assert effective("local[3]", transform=QUERY).master == "local[3,4]"


@pytest.mark.parametrize(
    ("named", "submitted"),
    [
        ("local", "local[3,1000000]"),
        ("local[2]", "local[2,1000000]"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
    ],
)
def test_a_local_master_gets_retries_and_others_stay_as_they_are(named: str, submitted: str) -> None:
    assert effective(named).master == submitted


def test_a_master_elsewhere_decides_the_drivers_address_itself() -> None:
    assert "spark.driver.host" not in effective("spark://cluster.example:7077").conf


def test_the_definitions_own_keys_win_over_defaults() -> None:
    assert effective(own={"spark.driver.memory": "1g"}).conf["spark.driver.memory"] == "1g"


@pytest.mark.parametrize("key", sorted(LOCKED.keys() & effective().conf.keys()))
def test_nothing_wins_over_what_the_design_relies_on(key: str) -> None:
    assert effective(own={key: "other"}).conf[key] == effective().conf[key]
