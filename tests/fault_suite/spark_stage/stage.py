"""A stage for faults: a pipeline on a Spark cluster under a real server, over three brokers behind proxies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee, SparkSettings
from app.edges.embedded.spark import SparkCluster
from tests.fault_suite.freeze_points import FreezePoints
from tests.fault_suite.offset_log import Asked
from tests.fault_suite.pipeline_stage import PipelineStage
from tests.fault_suite.plan import Fault, Kind
from tests.fault_suite.proxied_cluster import Did, Wait
from tests.fault_suite.spark_stage.acts import Act
from tests.fault_suite.spark_stage.control_faults import ControlFaults
from tests.fault_suite.spark_stage.control_plane import ControlPlane
from tests.fault_suite.spark_stage.disk import SmallDisk, may_mount
from tests.fault_suite.spark_stage.intruder import Intruders
from tests.fault_suite.spark_stage.processes import SparkProcesses
from tests.fault_suite.spark_stage.spark_faults import SparkFaults
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.spark_instances import SparkInstances
from tests.support.topics import add_partition, unique_name
from tests.support.waiting import wait_for

_BROKERS = 3
_PARTITIONS = 4
_INSTANCES = 2
_WORKERS = 2
_STATE_MB = 64
_ENDED_S = 60.0


class SparkStage(PipelineStage):
    """Instances of one task each, on three brokers.

    cores: of both workers of Spark together; an audit needs some beside those of the tasks. may_fill_disk: whether the
    server's folder lies on a small disk of its own, where there can be one.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2,
        fencing: OffsetFencing = OffsetFencing.GENERATION,
        protocol: GroupProtocol | None = None,
        session_timeout_ms: int = 4_000,
        instances: int = _INSTANCES,
        partitions: int = _PARTITIONS,
        cores: int = 4,
        may_fill_disk: bool = True,
    ) -> None:
        super().__init__(seed, folder, brokers=_BROKERS, guarantee=guarantee, fencing=fencing, protocol=protocol)
        self._session_timeout_ms = session_timeout_ms
        self._instances = instances
        self._partitions = partitions
        self._cores = cores
        self._may_fill_disk = may_fill_disk

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            self.points = FreezePoints(self._folder / "freeze")
            state_dir = self._folder / "state"
            has_disk = self._may_fill_disk and may_mount()
            disk = SmallDisk(state_dir, size_mb=_STATE_MB, keep=self._folder / "kept") if has_disk else None
            if disk is not None:
                stack.enter_context(disk)
            self.spark = stack.enter_context(
                SparkCluster.start(
                    workers=_WORKERS,
                    cores_per_worker=self._cores // _WORKERS,
                    data_dir=self._folder / "spark",
                    environment=self.points.environment_of(os.environ),
                )
            )
            self.plane = stack.enter_context(ControlPlane(self._folder, state_dir=state_dir, spark=self.spark))
            self.processes = SparkProcesses(self.spark, state_dir)
            stack.callback(self.points.thaw_all)
            self._start_pipeline()
            intruders = self._intruders()
            stack.callback(intruders.close)
            self._spark_faults = SparkFaults(
                self.spark, self.processes, self.points, pipeline=self.pipeline, stood=self.stood
            )
            self._control_faults = ControlFaults(self.plane, self.processes, intruders, disk=disk)
            self._acts: Mapping[Kind, Act] = {
                **self._spark_faults.acts,
                **self._control_faults.acts,
                Kind.PARTITION_ADDED: self._add_partition,
            }
            self._stack = stack.pop_all()
        return self

    @property
    def _where(self) -> str:
        return f"{_BROKERS} brokers, Spark with two workers and a server"

    def _kinds(self) -> Iterable[Kind]:
        return self._acts

    def settle(self) -> None:
        """End every fault that is left, so that the pipeline can come to rest."""
        self.cluster.settle()
        self._spark_faults.settle()
        self._control_faults.settle()

    def drain(self) -> None:
        """Every instance commits and leaves."""
        self.plane.drain()

    def end(self) -> None:
        """SIGKILL for the server, every driver and every task: no task commits any more, and none is restarted."""
        self.plane.server.kill()
        self.plane.server.end_drivers()
        self.processes.end_tasks()
        pipeline = self.pipeline
        members = partial(verifier.group_members, self.cluster.bootstrap_servers, pipeline.definition.group_id)
        # Orphans that the server cannot find any more are members, too.
        wait_for(lambda: members() == 0, _ENDED_S, lambda: f"a group without members; it has {members()}")

    def ask_offset_log(self) -> Asked:
        """By the server; not asked where it was ended with the rest."""
        return self.plane.ask_offset_log()

    def do(self, fault: Fault, did: Did, *, wait: Wait) -> None:
        """Do it, wait for as long as it lasts, and end it. `did` gets the target.

        Raises AssertionError where it could not be done, NotDoneError where it came too late.
        """
        act = self._acts.get(fault.kind)
        if act is None:
            self.cluster.do(fault, did, wait=wait)
        else:
            act(fault, did, wait)

    def _start_pipeline(self) -> None:
        self.pipeline = TestPipeline.create(
            self.cluster.bootstrap_servers,
            partitions=self._partitions,
            cluster=self.plane.server.registered_cluster(self.cluster.proxied),
            instances=self._instances,
            group_protocol=self._protocol,
            session_timeout_ms=self._session_timeout_ms,
            processing_guarantee=self._guarantee,
            offset_fencing=self._fencing,
            # How long a new partition stays unseen in a classic group: 5 minutes by default.
            consumer_overrides={"topic.metadata.refresh.interval.ms": "2000"},
            spark=SparkSettings(master=self.spark.master_url),
        )
        self.cluster.group = self.pipeline.definition.group_id
        self.plane.start_run(unique_name("faults"), self.pipeline.definition)
        self.plane.keep_copy()

    def _intruders(self) -> Intruders:
        instances = SparkInstances(
            state_dir=self._folder / "intruders",
            cache_dir=self._folder / "cache",
            master=self.spark.master_url,
            bootstrap_servers=self.cluster.proxied,
            master_web_urls={self.spark.master_url: self.spark.master_web_url},
        )
        return Intruders(instances, self.pipeline.definition, pipeline=self.plane.name, run_id=self.plane.run_id)

    def _add_partition(self, _fault: Fault, did: Did, _wait: Wait) -> None:
        self.pipeline.partitions = add_partition(self.cluster.bootstrap_servers, self.pipeline.source)
        did(f"{self.pipeline.partitions} partitions")
