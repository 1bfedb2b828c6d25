"""What comes in has the names and defaults of the domain: neither side can change alone."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from app.domain.audits import specification
from app.domain.pipelines import pipeline
from app.domain.runs import offset_reset
from app.web.api.schemas import audits as audit_schemas
from app.web.api.schemas import definition, offsets

GIVEN: list[tuple[type[BaseModel], type[msgspec.Struct]]] = [
    (definition.Definition, pipeline.PipelineDefinition),
    (definition.ErrorHandling, pipeline.ErrorHandling),
    (definition.SparkSettings, pipeline.SparkSettings),
    (definition.FileSink, pipeline.FileSink),
    (definition.FieldColumn, pipeline.ByField),
    (definition.DateColumn, pipeline.ByDate),
    (definition.HourColumn, pipeline.ByHour),
    (definition.IdentityTransform, pipeline.Identity),
    (definition.StepsTransform, pipeline.Steps),
    (definition.PythonTransform, pipeline.PythonFunction),
    (definition.FilterStep, pipeline.Filter),
    (definition.ConditionStep, pipeline.Condition),
    (definition.ProjectStep, pipeline.Project),
    (definition.RenameStep, pipeline.Rename),
    (definition.SetStep, pipeline.SetField),
    (definition.RouteStep, pipeline.Route),
    (offsets.OffsetTarget, offset_reset.OffsetTarget),
    (offsets.PartitionOffset, offset_reset.PartitionOffset),
    (audit_schemas.JsonField, specification.JsonField),
    (audit_schemas.Header, specification.Header),
    (audit_schemas.RecordKey, specification.RecordKey),
    (audit_schemas.OffsetRange, specification.OffsetRange),
    (audit_schemas.OffsetWindow, specification.OffsetWindow),
    (audit_schemas.Everything, specification.Everything),
]
"""What comes in: names and defaults are the same on both sides."""


def _struct_defaults(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Field → default as JSON data; PydanticUndefined where there is none. The tag of a union is a field too."""
    found: dict[str, Any] = {}
    config = record.__struct_config__
    if config.tag_field is not None:
        found[config.tag_field] = PydanticUndefined
    for field in msgspec.structs.fields(record):
        if field.default is not msgspec.NODEFAULT:
            found[field.encode_name] = _plain(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.encode_name] = _plain(field.default_factory())
        else:
            found[field.encode_name] = PydanticUndefined
    return found


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _model_defaults(model: type[BaseModel]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = default.model_dump(mode="json")
        elif isinstance(default, enum.Enum):
            default = default.value
        found[field.alias or name] = default
    return found


@pytest.mark.parametrize(("model", "record"), GIVEN, ids=lambda value: value.__name__)
def test_what_comes_in_mirrors_its_record(model: type[BaseModel], record: type[msgspec.Struct]) -> None:
    assert _model_defaults(model) == _struct_defaults(record)


def test_a_definition_at_its_fullest_survives_the_edge() -> None:
    """Every kind of step, and every field off its default, arrives in the domain as it was sent."""
    sent = {
        "cluster": "c",
        "source_topics": ["a", "b"],
        "group_id": "g",
        "sink_topic": "s",
        "start_position": "latest",
        "group_protocol": "consumer",
        "transactional_id_prefix": "x",
        "transform": {
            "kind": "steps",
            "steps": [
                {"op": "filter", "field": "a.b", "operator": "in", "value": [1, "2", None, True, 1.5]},
                {"op": "condition", "expression": "record.a > 1"},
                {"op": "project", "fields": ["a", "b"]},
                {"op": "rename", "field": "a", "to": "b"},
                {"op": "set", "field": "a", "value": {"deep": [1]}},
                {"op": "route", "field": "a", "operator": "eq", "value": "x", "topic": "t"},
            ],
        },
        "errors": {"policy": "dead_letter", "dead_letter_topic": "d", "max_bad": 1, "window_records": 2},
        "files": {
            "root": "s3://b/p",
            "partition_by": [
                {"of": "field", "name": "user", "field": "user.id"},
                {"of": "date", "name": "day"},
                {"of": "hour", "name": "hour"},
            ],
            "event_time": "at",
            "codec": "deflate",
            "rotate_ms": 1,
            "max_file_mb": 2,
            "upload_timeout_ms": 3,
            "conflict": "bad_record",
            "schema": {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]},
            "id_field": "id",
            "verifies": True,
        },
        "processing_guarantee": "at_least_once",
        "offset_fencing": "group_only",
        "commit_interval_ms": 1,
        "transaction_timeout_ms": 2,
        "session_timeout_ms": 3,
        "instances": 4,
        "tasks_per_instance": 5,
        "spark": {"master": "local[2]", "executor_memory_mb": 6, "conf": {"k": "v"}},
        "consumer_overrides": {"a": "1"},
        "producer_overrides": {"b": "2"},
        "allows_drills": True,
    }
    taken = definition.Definition.model_validate(sent).to_domain()
    assert msgspec.json.decode(msgspec.json.encode(taken)) == sent
