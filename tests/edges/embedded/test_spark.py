"""The embedded Spark cluster runs real applications and survives the death of its daemons."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.processes import has_ended
from app.edges.embedded.pyspark_package import spark_home
from app.edges.embedded.spark import SparkCluster
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

APPLICATION = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from pyspark import SparkContext

    folder = Path(sys.argv[1])

    def task(numbers):
        deadline = time.monotonic() + 600
        while not (folder / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        return [sys.executable, sum(numbers)]

    context = SparkContext()
    (folder / "application").write_text(context.applicationId)
    answers = context.parallelize(range(100), 2).mapPartitions(task).collect()
    (folder / "answers").write_text(repr(answers))
    context.stop()
""")


class Submitted:
    """An application of two tasks that wait for a signal."""

    def __init__(self, cluster: SparkCluster, folder: Path) -> None:
        self.folder = folder
        program = folder / "application.py"
        program.write_text(APPLICATION, encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        self.log = (folder / "driver.log").open("wb")
        self.process = subprocess.Popen(
            [
                *(str(spark_home() / "bin" / "spark-submit"), "--master", cluster.master_url),
                *("--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1"),
                *("--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.memory=512m"),
                *(str(program), str(folder)),
            ],
            env=find_java().environment(
                {**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
            ),
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def driver_log(self) -> str:
        return (self.folder / "driver.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    @property
    def application_id(self) -> str:
        path = self.folder / "application"
        wait_for(
            lambda: path.exists() and path.read_text(encoding="utf-8"), 120, lambda: f"the id; {self.driver_log()}"
        )
        return path.read_text(encoding="utf-8")

    def finish(self) -> str:
        (self.folder / "go").touch()
        assert self.process.wait(120) == 0, self.driver_log()
        return (self.folder / "answers").read_text(encoding="utf-8")


@pytest.fixture
def application(spark_cluster: SparkCluster, tmp_path: Path) -> Generator[Submitted]:
    """A submitted application, which ends with the test."""
    submitted = Submitted(spark_cluster, tmp_path)
    yield submitted
    if submitted.process.poll() is None:
        submitted.process.kill()
        submitted.process.wait()
    submitted.log.close()
    wait_for(lambda: not spark_cluster.executors(), 120, "the end of the application's executors")


def runs_both_tasks(cluster: SparkCluster, application: Submitted) -> None:
    """Wait until each of two executors has a Python worker below its Python daemon.

    An executor whose worker dies before the two have met does not notice; by the time its task runs, they have.
    """
    wanted = application.application_id

    def both_run() -> bool:
        found = cluster.executors(wanted)
        return len(found) == 2 and all(len(executor.python_pids()) == 2 for executor in found)

    wait_for(both_run, 120, lambda: f"two tasks in {cluster.executors(wanted)}; {application.driver_log()}")


def test_cluster_listens_on_loopback_only_and_offers_no_rest_submission(spark_cluster: SparkCluster) -> None:
    for node in (spark_cluster.master, *spark_cluster.workers):
        listening = [
            connection.laddr.ip.removeprefix("::ffff:")
            for connection in psutil.Process(node.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        # The daemon's own port and its web page; a third would be the REST server.
        assert listening == ["127.0.0.1", "127.0.0.1"]


def test_application_runs_with_our_interpreter(spark_cluster: SparkCluster, application: Submitted) -> None:
    runs_both_tasks(spark_cluster, application)
    found = spark_cluster.executors(application.application_id)
    assert {executor.executor_id for executor in found} == {"0", "1"}
    assert application.finish() == repr([sys.executable, sum(range(50)), sys.executable, sum(range(50, 100))])


@pytest.mark.faults(keep=2, of="slow ends of Spark applications")
def test_master_restart_after_kill_keeps_the_application(spark_cluster: SparkCluster, application: Submitted) -> None:
    runs_both_tasks(spark_cluster, application)
    executors = spark_cluster.executors()
    spark_cluster.master.kill()
    with pytest.raises(EmbeddedError, match="does not answer"):
        spark_cluster.status()
    spark_cluster.master.restart()
    spark_cluster.wait_until_ready()
    wait_for(
        lambda: (
            [app.state for app in spark_cluster.status().activeapps if app.id == application.application_id]
            == ["RUNNING"]
        ),
        120,
        lambda: f"{application.application_id} known to the new master; {spark_cluster.status()}",
    )
    assert spark_cluster.executors() == executors
    assert str(sum(range(50))) in application.finish()


@pytest.mark.faults(keep=2, of="slow ends of Spark applications")
def test_worker_restart_after_kill_runs_the_application_to_its_end(
    spark_cluster: SparkCluster, application: Submitted
) -> None:
    runs_both_tasks(spark_cluster, application)
    victim = spark_cluster.workers[0]
    lost = [child.pid for child in psutil.Process(victim.pid).children(recursive=True)]
    victim.kill()
    wait_for(
        lambda: all(has_ended(pid) for pid in lost),
        30,
        lambda: f"the end of {[psutil.Process(pid) for pid in lost if not has_ended(pid)]}",
    )
    victim.restart()
    spark_cluster.wait_until_ready()
    runs_both_tasks(spark_cluster, application)
    assert str(sum(range(50, 100))) in application.finish()


def test_daemon_that_cannot_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(EmbeddedError, match=r"(?s)Spark master ended with exit code 1 .*RpcEnv"):
        SparkCluster.start(workers=0, settings={"spark.rpc.io.serverThreads": "many"})
