"""Derived from a layout: values for Hypothesis, and the names of Kafka's own JSON."""

from __future__ import annotations

import base64
from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from app.core.journals.group_values.classic import decode_assignment
from app.core.journals.wire_format import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    STRING,
    TOPIC_NAME,
    UINT16,
    UUID,
    Array,
    Enumeration,
    Fixed,
    WireType,
)
from app.core.journals.wire_message import Field, Layout, NullableStructure, Undecodable

_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_uuids = st.binary(min_size=16, max_size=16).map(lambda raw: base64.urlsafe_b64encode(raw)[:22].decode())
_PLAIN: dict[WireType, st.SearchStrategy[Any]] = {
    STRING: _texts,
    TOPIC_NAME: _texts,
    NULLABLE_STRING: st.none() | _texts,
    BYTES: st.binary(max_size=8),
    NULLABLE_BYTES: st.none() | st.binary(max_size=8),
    UUID: _uuids,
}
TYPE_NAMES: dict[WireType, str] = {
    INT8: "int8",
    INT16: "int16",
    UINT16: "uint16",
    INT32: "int32",
    INT64: "int64",
    STRING: "string",
    TOPIC_NAME: "string",
    NULLABLE_STRING: "string",
    BYTES: "bytes",
    NULLABLE_BYTES: "bytes",
    UUID: "uuid",
}


def kafka_name(field: Field) -> str:
    """The field's name in Kafka's JSON."""
    first, *rest = field.name.split("_")
    return field.kafka or first + "".join(word.capitalize() for word in rest)


def values(kind: Any, version: int) -> st.SearchStrategy[Any]:
    """All values that a message of this version can have; other fields have their defaults."""
    match kind:
        case Fixed(form):
            bits = 8 * form.size
            if form.format[-1].isupper():
                return st.integers(0, 2**bits - 1)
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case Enumeration(names):
            return st.sampled_from(names)
        case Array(of, is_nullable):
            entries = st.lists(values(of, version), max_size=3).map(tuple)
            return st.none() | entries if is_nullable else entries
        case NullableStructure(of):
            return st.none() | values(of, version)
        case Layout():
            layout = cast("Layout[Any]", kind)
            present = {field.name: values(field.kind, version) for field in layout.fields if field.is_in(version)}
            return st.builds(layout.made, **present)
        case _:
            return _PLAIN[kind]


def assert_same(kind: Any, version: int, ours: Any, theirs: Any) -> None:
    """Compare a value with Kafka's JSON of it, field by field, names included."""
    match kind:
        case Array(of) if ours is not None:
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                assert_same(of, version, one, other)
        case NullableStructure(of) if ours is not None:
            assert_same(of, version, ours, theirs)
        case Layout():
            layout = cast("Layout[Any]", kind)
            defaults = {field.name: field.default for field in msgspec.structs.fields(layout.made)}
            present = {kafka_name(field): field for field in layout.fields if field.is_in(version)}
            assert set(theirs) <= set(present)
            for name, field in present.items():
                # A tagged field that has its default is not in the JSON.
                assert name in theirs or field.tag is not None, (name, theirs)
                found = getattr(ours, field.name)
                if name in theirs:
                    assert_same(field.kind, version, found, theirs[name])
                else:
                    assert found == defaults[field.name]
        case _ if isinstance(theirs, dict):
            _assert_same_protocol(cast(bytes, ours), cast("dict[str, Any]", theirs))
        case _ if isinstance(ours, bytes):
            assert base64.b64encode(ours).decode() == theirs
        case _:
            assert ours == theirs


def _assert_same_protocol(ours: bytes, theirs: dict[str, Any]) -> None:
    """The tool also decodes the consumers' protocol; Fenceline does so for assignments."""
    if "assignedPartitions" not in theirs:
        assert "ownedPartitions" in theirs
        return
    read = decode_assignment(ours)
    assert not isinstance(read, Undecodable)
    expected = [(each["topic"], tuple(each["partitions"])) for each in theirs["assignedPartitions"]]
    assert [(each.topic, each.partitions) for each in read] == expected
