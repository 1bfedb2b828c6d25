"""How a driver gets its specification, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire import specification as wire
from app.core.wire.specification import InstanceSpecification, TaskIdentity
from tests.support.worker_listener import WorkerListener
from workers.spark import handover

SPECIFICATION = InstanceSpecification(
    fenceline_version="0.1.0",
    pipeline="flights",
    revision=3,
    run_id="r1",
    ordinal=0,
    lease=2,
    database_epoch="e",
    definition=PipelineDefinition(cluster="c", source_topics=("in",), group_id="g", sink_topic="out"),
    client_config={"bootstrap.servers": "127.0.0.1:1"},
    tasks=(TaskIdentity(task=0, transactional_id="fl.t.flights.0.0"),),
    run_token="secret",
)


def write(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_private_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", wire.encode(SPECIFICATION))
    assert handover.from_file(path) == SPECIFICATION


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "s.json", wire.encode(SPECIFICATION), mode)
    with pytest.raises(handover.NoSpecificationError, match=f"mode {mode:04o}.*must be 0600"):
        handover.from_file(path)


def test_another_protocol_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    newer = msgspec.json.encode({**msgspec.to_builtins(SPECIFICATION), "protocol_version": 7})
    with pytest.raises(handover.NoSpecificationError, match=r"protocol version 7, this side supports 1\b"):
        handover.from_file(write(tmp_path / "s.json", newer))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"protocol_version":1}'])
def test_a_broken_file_is_refused_and_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(handover.NoSpecificationError, match=r"s\.json is not usable"):
        handover.from_file(write(tmp_path / "s.json", content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(handover.NoSpecificationError, match=r"none\.json cannot be read"):
        handover.from_file(tmp_path / "none.json")


def test_the_specification_is_fetched_with_the_token(worker_listener: WorkerListener) -> None:
    worker_listener.answer_with("/workers/v1/specification", SPECIFICATION)
    assert handover.from_server([worker_listener.url], "token-7", within_s=5) == SPECIFICATION
    assert worker_listener.authorizations == ["Bearer token-7"]


def test_a_server_that_is_away_is_asked_again(worker_listener: WorkerListener) -> None:
    worker_listener.fail_with("/workers/v1/specification", 503, times=2)
    worker_listener.answer_with("/workers/v1/specification", SPECIFICATION)
    waits: list[float] = []
    found = handover.from_server([worker_listener.url], "t", within_s=60, sleep=waits.append)
    assert found == SPECIFICATION
    assert len(waits) == 2


def test_a_refused_token_is_final(worker_listener: WorkerListener) -> None:
    worker_listener.fail_with("/workers/v1/specification", 401, detail="this token is not known")
    with pytest.raises(handover.NoSpecificationError, match="this token is not known"):
        handover.from_server([worker_listener.url], "t", within_s=60)
