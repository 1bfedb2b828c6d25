"""The seed draws, beside the faults, the requests of the store that they meet, and the places of freezes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from itertools import islice
from pathlib import Path

import pytest

from tests.fault_suite.file_stage import FileStage
from tests.fault_suite.freeze_points import FilePoint, Point
from tests.fault_suite.plan import FREEZING, faults
from tests.support.lakes import Bucket
from tests.support.object_store import Fault, FaultyProxy, serving_s3
from tests.support.topics import unique_name

REQUESTS = 5_000


@pytest.fixture
def lake() -> Generator[Bucket]:
    with serving_s3() as s3:
        proxy = FaultyProxy(s3.port)
        yield Bucket(s3, unique_name("bucket"), proxy)
        proxy.close()


def drawn(lake: Bucket) -> list[Fault]:
    return [lake.proxy.fault("PUT", "/path", before) for before in range(REQUESTS)]


def test_faults_of_requests_depend_on_the_seed_alone_and_every_kind_comes(tmp_path: Path, lake: Bucket) -> None:
    found: list[list[Fault]] = []
    for seed in (1, 1, 2):
        FileStage(seed, tmp_path, brokers=1, lake=lake)
        found.append(drawn(lake))
    assert found[0] == found[1] != found[2]
    counted = Counter(found[0])
    assert set(counted) == set(Fault)
    assert counted[Fault.NONE] > REQUESTS / 2
    assert counted[Fault.HELD] + counted[Fault.UNANSWERED] < REQUESTS / 100


def test_workers_are_frozen_at_every_point_of_files_too(tmp_path: Path, lake: Bucket) -> None:
    stage = FileStage(1, tmp_path, brokers=1, lake=lake)
    points = {stage.point_of(fault) for fault in islice(faults(1, FREEZING), 200)}
    assert points == {None, *Point, *FilePoint}


def test_at_rest_the_store_is_well(tmp_path: Path, lake: Bucket) -> None:
    stage = FileStage(1, tmp_path, brokers=1, lake=lake)
    stage.heal_store()
    assert set(drawn(lake)) == {Fault.NONE}
