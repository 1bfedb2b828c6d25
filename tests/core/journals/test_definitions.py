"""Fenceline's descriptions of the journals' records against Kafka's own in the brokers' jars."""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any, cast

import pytest

from app.core.journals import transaction_state
from app.core.journals.group_records import KEY, VALUES, RecordType
from app.core.journals.wire_format import NULLABLE_BYTES, NULLABLE_STRING, Array, Enumeration
from app.core.journals.wire_message import Field, Layout, NullableStructure, WireMessage
from app.edges.embedded.maven import KAFKA_JARS, OLD_KAFKA_JARS, ensure_jars
from tests.core.journals.layouts import TYPE_NAMES, kafka_name

NAMES = {
    RecordType.OFFSET_COMMIT: "OffsetCommit",
    RecordType.CLASSIC_GROUP: "GroupMetadata",
    RecordType.GROUP_EPOCH: "ConsumerGroupMetadata",
    RecordType.PARTITION_METADATA: "ConsumerGroupPartitionMetadata",
    RecordType.MEMBER: "ConsumerGroupMemberMetadata",
    RecordType.TARGET_ASSIGNMENT_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
    RecordType.TARGET_ASSIGNMENT: "ConsumerGroupTargetAssignmentMember",
    RecordType.CURRENT_ASSIGNMENT: "ConsumerGroupCurrentMemberAssignment",
    RecordType.PATTERN: "ConsumerGroupRegularExpression",
    RecordType.SHARE_MEMBER: "ShareGroupMemberMetadata",
    RecordType.SHARE_GROUP_EPOCH: "ShareGroupMetadata",
    RecordType.SHARE_TARGET_ASSIGNMENT_EPOCH: "ShareGroupTargetAssignmentMetadata",
    RecordType.SHARE_TARGET_ASSIGNMENT: "ShareGroupTargetAssignmentMember",
    RecordType.SHARE_CURRENT_ASSIGNMENT: "ShareGroupCurrentMemberAssignment",
    RecordType.SHARE_STATE_PARTITIONS: "ShareGroupStatePartitionMetadata",
    RecordType.STREAMS_GROUP_EPOCH: "StreamsGroupMetadata",
    RecordType.STREAMS_MEMBER: "StreamsGroupMemberMetadata",
    RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH: "StreamsGroupTargetAssignmentMetadata",
    RecordType.STREAMS_TARGET_ASSIGNMENT: "StreamsGroupTargetAssignmentMember",
    RecordType.STREAMS_CURRENT_ASSIGNMENT: "StreamsGroupCurrentMemberAssignment",
    RecordType.STREAMS_TOPOLOGY: "StreamsGroupTopology",
}
MESSAGES: dict[str, WireMessage[Any]] = {
    "TransactionLogValue": transaction_state.VALUE,
    **{f"{name}Value": VALUES[record_type] for record_type, name in NAMES.items()},
}
SINCE_4_0 = ("ConsumerGroupRegularExpressionValue", "StreamsGroup", "ShareGroup")
NEWEST = 32_767


@cache
def definitions(jars: str) -> dict[str, Any]:
    """Every message definition in the jars of a broker, by name."""
    found: dict[str, Any] = {}
    for jar in ensure_jars(jars):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/\w+(Key|Value)\.json", name):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def span(text: str) -> tuple[int, int]:
    """Kafka's notation: "3+", "0-4", "1", "none"."""
    if text == "none":
        return (0, -1)
    if text.endswith("+"):
        return (int(text[:-1]), NEWEST)
    first, _, last = text.partition("-")
    return (int(first), int(last or first))


def theirs(fields: list[Any], structures: dict[str, Any]) -> list[Any]:
    """Fields in the order of the wire: name, type, nullable, versions, tag, and those of the structure."""
    described: list[Any] = []
    for field in fields:
        of = field["type"].removeprefix("[]")
        described.append(
            (
                field["name"][0].lower() + field["name"][1:],
                ("[]" if field["type"].startswith("[]") else "") + (of if of[0].islower() else "structure"),
                "nullableVersions" in field,
                span(field.get("taggedVersions") or field["versions"]),
                field.get("tag"),
                theirs(field.get("fields") or structures.get(of, []), structures),
            )
        )
    return described


def ours(layout: Layout[Any]) -> list[Any]:
    return [_described(field) for field in layout.fields]


def _described(field: Field) -> Any:
    kind: Any = field.kind
    prefix, is_nullable = "", kind in (NULLABLE_STRING, NULLABLE_BYTES) or isinstance(kind, NullableStructure)
    if isinstance(kind, Array):
        prefix, is_nullable, kind = "[]", kind.is_nullable, kind.of
    if isinstance(kind, NullableStructure):
        kind = kind.of
    if isinstance(kind, Layout):
        name, inner = "structure", ours(cast("Layout[Any]", kind))
    else:
        name, inner = "int8" if isinstance(kind, Enumeration) else TYPE_NAMES[kind], []
    return (kafka_name(field), prefix + name, is_nullable, (field.since, field.until), field.tag, inner)


def structures_of(definition: Any) -> dict[str, Any]:
    return {structure["name"]: structure["fields"] for structure in definition.get("commonStructs", [])}


@pytest.mark.parametrize("name", MESSAGES)
def test_description_is_that_of_the_embedded_kafka(name: str) -> None:
    definition = definitions(KAFKA_JARS)[name]
    message = MESSAGES[name]
    assert (min(message.layouts), max(message.layouts)) == span(definition["validVersions"])
    first_flexible, _ = span(definition["flexibleVersions"])
    assert message.flexible_since == first_flexible
    assert ours(message.layouts[0]) == theirs(definition["fields"], structures_of(definition))


@pytest.mark.parametrize("name", [name for name in MESSAGES if not name.startswith(SINCE_4_0)])
def test_records_of_older_kafka_are_described(name: str) -> None:
    definition = definitions(OLD_KAFKA_JARS)[name]
    message = MESSAGES[name]
    first, last = span(definition["validVersions"])
    assert set(range(first, last + 1)) <= set(message.layouts)
    assert message.flexible_since == span(definition["flexibleVersions"])[0]
    older = theirs(definition["fields"], structures_of(definition))
    known = {field[0] for field in older}
    described = [_without_later_fields(field, older) for field in ours(message.layouts[0]) if field[0] in known]
    assert described == older


def _without_later_fields(field: Any, older: list[Any]) -> Any:
    """Structures gained tagged fields."""
    *rest, inner = field
    (counterpart,) = (each for each in older if each[0] == field[0])
    known = {each[0] for each in counterpart[5]}
    return (*rest, [each for each in inner if each[0] in known])


@pytest.mark.parametrize("record_type", NAMES)
def test_keys_are_those_of_the_embedded_kafka(record_type: RecordType) -> None:
    definition = definitions(KAFKA_JARS)[f"{NAMES[record_type]}Key"]
    assert definition["apiKey"] == record_type
    names = [(name, kind) for name, kind, *_ in theirs(definition["fields"], {})]
    assert [(name, kind) for name, kind, *_ in ours(KEY.layouts[record_type])] == names


def test_every_type_of_group_records_that_kafka_defines_is_read() -> None:
    # Those of the share coordinator lie in `__share_group_state`, those of transactions in `__transaction_state`.
    not_read = ("ShareSnapshot", "ShareUpdate", "TransactionLog")
    defined = {
        definition["apiKey"]
        for name, definition in definitions(KAFKA_JARS).items()
        if name.endswith("Key") and definition["type"] == "coordinator-key" and not name.startswith(not_read)
    }
    assert defined == set(RecordType)
