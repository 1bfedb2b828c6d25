"""`python -m tests.mutations.recording`: the logs of a failing pipeline, for tests/fault_suite/test_first_wrong.py.

A loop without read_committed takes over pending offsets of another one: 200 records are duplicated.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import mock

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaCluster
from tests.fault_suite.recorded_run import RECORDED
from tests.mutations import scenes
from tests.mutations.scenes import Place
from tests.mutations.switches import Switch
from tests.support.brokers import TEST_BROKER_SETTINGS

_SETTINGS = {
    **TEST_BROKER_SETTINGS,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fenceline-recording-") as folder:
        with (
            KafkaCluster.start(overrides=_SETTINGS, data_dir=Path(folder) / "kafka") as kafka,
            # Its outputs are to be kept.
            mock.patch.object(scenes, "delete_topics"),
        ):
            place = Place(kafka.bootstrap_servers, Path(folder), GroupProtocol.CLASSIC, (Switch.READ_COMMITTED,))
            audit = scenes.frozen_between_offsets_and_commit(place)
            assert audit.duplicated, str(audit)
            data = kafka.broker(1).data_dir / "data"
        shutil.rmtree(RECORDED, ignore_errors=True)
        RECORDED.mkdir()
        for partition in (*data.glob("p-*"), data / "__consumer_offsets-0", data / "__transaction_state-0"):
            (segment,) = partition.glob("*.log")
            shutil.copyfile(segment, RECORDED / f"{partition.name}.log")


if __name__ == "__main__":
    main()
