"""The messages between server and workers, compared with recorded ones: an old message is understood for ever.

A recorded file is changed only together with the protocol version (app/core/wire/protocol.py); a new field with a
default leaves the files as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from app.core.pipelines.pipeline import ByField, FileSink
from app.core.runs.recorded_offset import RecordedOffset
from app.core.wire import drill, heartbeat, protocol, specification
from app.core.wire.specification import InstanceSpecification
from app.products.audits import wire as audit

RECORDED = Path(__file__).parent / "version_1"
MESSAGES: dict[str, type[msgspec.Struct]] = {
    "claim": heartbeat.Claim,
    "claim_answer": heartbeat.ClaimAnswer,
    "task_heartbeat": heartbeat.TaskHeartbeat,
    "heartbeat_answer": heartbeat.HeartbeatAnswer,
    "driver_heartbeat": heartbeat.DriverHeartbeat,
    "driver_answer": heartbeat.DriverAnswer,
    "outcome": heartbeat.ReportedOutcome,
    "drill_report": drill.DrillReport,
    "drill_answer": drill.DrillAnswer,
    "specification": InstanceSpecification,
    "audit_order": audit.AuditOrder,
    "audit_claim": audit.AuditClaim,
    "audit_progress": audit.AuditProgressReport,
    "audit_answer": audit.AuditAnswer,
    "audit_outcome": audit.AuditOutcome,
}


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes()


def what_is_known_of(said: Any, recorded_value: Any) -> Any:
    """`said` without the fields that the recorded message does not have, at every depth."""
    if isinstance(recorded_value, dict):
        known = cast(dict[str, Any], recorded_value)
        return {key: what_is_known_of(said[key], value) for key, value in known.items()}
    if isinstance(recorded_value, list):
        items = cast(list[Any], recorded_value)
        return [what_is_known_of(one, other) for one, other in zip(said, items, strict=True)]
    return said


def test_every_message_is_recorded() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(MESSAGES)


@pytest.mark.parametrize("name", MESSAGES)
def test_recorded_message_is_read_and_written_again_without_loss(name: str) -> None:
    message = msgspec.json.decode(recorded(name), type=MESSAGES[name])
    said = json.loads(msgspec.json.encode(message))
    assert what_is_known_of(said, json.loads(recorded(name))) == json.loads(recorded(name))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_field_of_a_later_release_is_passed_over(name: str) -> None:
    later = json.dumps({**json.loads(recorded(name)), "added_later": {"a": 1}}).encode()
    assert msgspec.json.decode(later, type=MESSAGES[name]) == msgspec.json.decode(recorded(name), type=MESSAGES[name])


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_carries_the_protocol_version(name: str) -> None:
    assert json.loads(recorded(name))["protocol_version"] == protocol.CURRENT
    assert protocol.CURRENT in protocol.SUPPORTED


def test_fields_without_a_default_are_those_of_the_first_release() -> None:
    """A new field without a default would make every message of a running worker unreadable."""
    required = {
        name: sorted(field.name for field in msgspec.structs.fields(kind) if field.required)
        for name, kind in MESSAGES.items()
    }
    assert all(set(fields) <= set(json.loads(recorded(name))) for name, fields in required.items()), required


@pytest.mark.parametrize("version", [0, 5, 99])
def test_another_protocol_version_is_refused_with_both_named(version: int) -> None:
    other = json.dumps({**json.loads(recorded("specification")), "protocol_version": version}).encode()
    with pytest.raises(protocol.UnsupportedProtocolError, match=rf"version {version}, this side supports 1, 2, 3, 4"):
        specification.decode(other)


def test_version_is_checked_before_the_rest() -> None:
    with pytest.raises(protocol.UnsupportedProtocolError, match="version 5"):
        specification.decode(b'{"protocol_version": 5, "everything": "else differs"}')


def with_files(files: FileSink | None) -> InstanceSpecification:
    said = specification.decode(recorded("specification"))
    return msgspec.structs.replace(said, definition=msgspec.structs.replace(said.definition, files=files))


def test_a_worker_of_version_1_is_given_a_pipeline_of_records_in_words_that_it_knows() -> None:
    """Its definition takes no field that it does not know, not even an empty one."""
    said = json.loads(specification.encode(with_files(None)))
    assert said["protocol_version"] == 1
    assert "files" not in said["definition"]
    assert specification.decode(specification.encode(with_files(None))) == with_files(None)


def test_a_worker_of_version_1_refuses_a_pipeline_of_files_before_it_looks_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = specification.encode(with_files(FileSink(root="file:///data")))
    monkeypatch.setattr(protocol, "SUPPORTED", frozenset({1}))
    with pytest.raises(protocol.UnsupportedProtocolError) as refused:
        specification.decode(data)
    assert str(refused.value) == (
        "the server has protocol version 2, this side supports 1: install the same Fenceline release on both"
    )


def test_a_worker_of_today_takes_a_pipeline_of_files_whole() -> None:
    files = FileSink(root="s3://bucket/flights", partition_by=(ByField(name="carrier", field="carrier"),))
    taken = specification.decode(specification.encode(with_files(files)))
    assert taken.definition.files == files
    assert taken.protocol_version == protocol.FILES
    # The specification that a driver hands on to its tasks is the same again.
    assert specification.decode(specification.encode(taken)) == taken


def test_a_driver_of_version_1_refuses_to_audit_files_and_audits_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take references for outputs, and call all of them unexpected."""
    of_records = audit.decode(recorded("audit_order"))
    settings = msgspec.structs.replace(of_records.specification, files=FileSink(root="file:///data"))
    of_files = msgspec.structs.replace(of_records, specification=settings)
    assert audit.decode(audit.encode(of_files)).specification == settings
    monkeypatch.setattr(protocol, "SUPPORTED", frozenset({1}))
    assert audit.decode(audit.encode(of_records)) == of_records
    with pytest.raises(protocol.UnsupportedProtocolError, match="version 2"):
        audit.decode(audit.encode(of_files))


def test_a_worker_of_version_1_passes_over_the_recorded_offsets() -> None:
    """It starts a group without its offsets at the start position, as before: the server has compared them first."""
    known = (RecordedOffset(topic="in", partition=0, offset=7, topic_id="a"),)
    said = specification.encode(msgspec.structs.replace(with_files(None), recorded=known))
    assert msgspec.json.decode(said)["protocol_version"] == 1
    assert specification.decode(said).recorded == known
