"""Where it takes place: three instances on Spark without a generation, under a real server that audits them."""

from __future__ import annotations

from pathlib import Path

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite.spark_stage.stage import SparkStage

INSTANCES = 3
PARTITIONS = 6
PADDING_S = 30
# An audit has two, so none waits where an executor is replaced.
_CORES = 6


class MigrationStage(SparkStage):
    """Begins as exactly_once with offsets for the group alone, which a classic group has."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(
            seed,
            folder,
            guarantee=ProcessingGuarantee.EXACTLY_ONCE,
            fencing=OffsetFencing.GROUP_ONLY,
            protocol=GroupProtocol.CLASSIC,
            instances=INSTANCES,
            partitions=PARTITIONS,
            cores=_CORES,
            may_fill_disk=False,
        )

    def _start_pipeline(self) -> None:
        """With a plan of audits, none of which is made unless a migration asks for it."""
        super()._start_pipeline()
        plan = {"id_place": {"kind": "key"}, "padding_s": PADDING_S}
        self.plane.server.put(f"/pipelines/{self.plane.name}/audit-plan", plan)
