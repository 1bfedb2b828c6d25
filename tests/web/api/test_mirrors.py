"""What OpenAPI shows has the names and defaults of the domain: neither side can change alone."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from app.domain import access, command
from app.domain.audits import audit, specification
from app.domain.audits import result as audit_result
from app.domain.clusters import cluster, survey
from app.domain.drills import drill, timeline
from app.domain.errors import Problem
from app.domain.fencing_events import evidence, record, story
from app.domain.files import orphan_findings, orphan_look, schema_history, totals, written_file
from app.domain.files import reading as file_reading
from app.domain.journals import live_transactions, transaction_state
from app.domain.migrations import alarms, foreign, judged, migration
from app.domain.migrations import look as migration_look
from app.domain.migrations import plan as migration_plan
from app.domain.migrations import record as migration_record
from app.domain.offset_log import check, events, verdict
from app.domain.offset_log import record as offset_record
from app.domain.partition_log import content, entries, look
from app.domain.pipelines import pipeline, pipeline_record
from app.domain.pipelines.revision import Change
from app.domain.runs import instance, offset_reset, run, task
from app.domain.stuck import diagnosis, ending, facts
from app.domain.transactions import id_formulas, id_import, id_registry, mapping
from app.domain.webhooks import webhook
from app.ports import brokers
from app.services import partition_log
from app.services.defining.pipelines import SavedPipeline
from app.services.files import orphans as orphan_services
from app.services.files import showing as file_showing
from app.services.migrating import foreign as foreign_service
from app.services.migrating import planning
from app.services.stuck import ending as stuck_services
from app.web.api.schemas import access as access_schemas
from app.web.api.schemas import audits as audit_schemas
from app.web.api.schemas import clusters, definition, fencing, hanging, ids, offsets, pipelines, runs
from app.web.api.schemas import drills as drill_schemas
from app.web.api.schemas import files as file_schemas
from app.web.api.schemas import foreign_migrations as foreign_schemas
from app.web.api.schemas import migrations as migration_schemas
from app.web.api.schemas import offset_log as offset_schemas
from app.web.api.schemas import orphans as orphan_schemas
from app.web.api.schemas import partition_log as log_schemas
from app.web.api.schemas import stuck as stuck_schemas
from app.web.api.schemas import webhooks as webhook_schemas
from app.web.api.schemas.base import Answer, Body, Given
from app.web.api.schemas.observing import groups, reading, transactions

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

ANSWERS: list[tuple[type[BaseModel], type[msgspec.Struct], set[str]]] = [
    (drill_schemas.Drill, drill.Drill, {"well_since"}),
    (drill_schemas.Plan, drill.Plan, set()),
    (drill_schemas.Expectation, drill.Expectation, set()),
    (drill_schemas.Target, drill.Target, set()),
    (drill_schemas.AuditFigures, drill.AuditFigures, set()),
    (drill_schemas.Entry, timeline.Entry, set()),
    (drill_schemas.PartitionWatched, timeline.PartitionWatched, {"is_told", "at_end_at"}),
    # What the next look is compared with is nobody else's business.
    (drill_schemas.Watched, timeline.Watched, {"epochs", "tasks", "fencings"}),
    # What the last looks saw is told as the gate.
    (
        migration_schemas.Migration,
        migration.Migration,
        {"group_seen", "gate", "ends_seen", "looked_at", "watched_since"},
    ),
    (foreign_schemas.ForeignMigration, foreign.ForeignMigration, set()),
    (foreign_schemas.ForeignMark, foreign.ForeignMark, set()),
    (foreign_schemas.ForeignMember, foreign.ForeignMember, set()),
    (foreign_schemas.ForeignView, foreign_service.ForeignView, {"look"}),
    (migration_schemas.MigrationPlan, planning.Plan, set()),
    (migration_schemas.PlannedStep, migration_plan.PlannedStep, set()),
    (migration_schemas.InstanceMode, migration_look.InstanceNow, set()),
    (migration_schemas.Proof, migration_record.Proof, set()),
    (migration_schemas.MigrationStep, migration.Step, set()),
    (migration_schemas.FencedId, migration.Fenced, set()),
    (migration_schemas.Held, migration_look.Held, set()),
    (migration_schemas.Incarnation, migration_look.Incarnation, set()),
    (migration_schemas.Clause, judged.Judged, set()),
    (migration_schemas.Alarm, alarms.Alarm, set()),
    (migration_schemas.Evidence, migration_record.Evidence, set()),
    (audit_schemas.Result, audit_result.AuditResult, {"audit_id"}),
    (audit_schemas.AuditCounts, audit_result.AuditCounts, set()),
    (audit_schemas.Tally, audit_result.Tally, set()),
    (audit_schemas.Example, audit_result.Example, set()),
    (audit_schemas.Place, audit_result.Place, set()),
    (audit_schemas.PartitionTally, audit_result.PartitionTally, set()),
    (audit_schemas.RangeRead, audit_result.RangeRead, set()),
    (audit_schemas.Gap, audit_result.Gap, set()),
    (audit_schemas.AuditVersions, audit_result.AuditVersions, set()),
    (audit_schemas.AuditProgress, audit.AuditProgress, set()),
    (clusters.Cluster, cluster.Cluster, set()),
    (offset_schemas.AssignedEvent, events.Assigned, set()),
    (offset_schemas.GivenUpEvent, events.GivenUp, set()),
    (offset_schemas.PositionedEvent, events.Positioned, set()),
    (offset_schemas.CheckpointEvent, events.Checkpoint, set()),
    (offset_schemas.Side, check.Side, set()),
    (offset_schemas.Finding, check.Finding, set()),
    (offset_schemas.Figures, verdict.Figures, set()),
    (offset_schemas.PartitionCheck, check.PartitionCheck, set()),
    (offset_schemas.PipelineCheck, check.PipelineCheck, set()),
    (offset_schemas.LastCheck, offset_record.CheckRecord, set()),
    (offset_schemas.FindingRecord, offset_record.FindingRecord, set()),
    (file_schemas.InputOffsets, written_file.InputOffsets, set()),
    (file_schemas.File, written_file.WrittenFile, set()),
    (file_schemas.Total, totals.Total, set()),
    (file_schemas.PartitionTotal, totals.PartitionTotal, set()),
    (file_schemas.HourTotal, totals.HourTotal, set()),
    (file_schemas.TopicReading, file_reading.TopicReading, set()),
    (file_schemas.FileWatchState, file_reading.FileWatchState, set()),
    (file_schemas.FileStanding, file_showing.FileStanding, set()),
    (file_schemas.FileTotals, file_showing.FileTotals, set()),
    (file_schemas.FieldChange, schema_history.FieldChange, set()),
    (orphan_schemas.Orphans, orphan_services.Orphans, set()),
    (orphan_schemas.OrphanLook, orphan_look.OrphanLook, set()),
    (orphan_schemas.OrphanFindings, orphan_findings.OrphanFindings, set()),
    (orphan_schemas.RootFindings, orphan_findings.RootFindings, set()),
    (orphan_schemas.Amount, orphan_findings.Amount, set()),
    (orphan_schemas.OrphanFile, orphan_findings.OrphanFile, set()),
    (orphan_schemas.DanglingReference, orphan_findings.DanglingReference, set()),
    (orphan_schemas.OpenTransaction, orphan_findings.OpenTransaction, set()),
    (orphan_schemas.Collected, orphan_findings.Collected, set()),
    (orphan_schemas.KeptFile, orphan_findings.KeptFile, set()),
    (orphan_schemas.Confirmed, orphan_findings.Confirmed, set()),
    (orphan_schemas.ConfirmedRoot, orphan_findings.ConfirmedRoot, set()),
    (clusters.ClusterDescription, brokers.ClusterDescription, set()),
    (clusters.Broker, brokers.Broker, set()),
    (clusters.SurveyedBroker, survey.SurveyedBroker, set()),
    (clusters.Feature, survey.Feature, set()),
    (clusters.SettingLine, survey.SettingLine, set()),
    (clusters.FeatureLine, survey.FeatureLine, set()),
    (pipelines.Pipeline, pipeline_record.Pipeline, set()),
    (pipelines.Revision, pipeline_record.Revision, set()),
    (pipelines.TransformSource, pipeline_record.TransformSource, {"source"}),
    (pipelines.SavedPipeline, SavedPipeline, set()),
    (pipelines.Problem, Problem, set()),
    (pipelines.Change, Change, set()),
    (pipelines.RunSummary, run.RunSummary, set()),
    (runs.Run, run.Run, set()),
    (runs.Instance, instance.Instance, {"log_path"}),
    (runs.InstanceOutcome, instance.InstanceOutcome, set()),
    (runs.TaskStatus, task.TaskStatus, set()),
    (runs.TaskReport, task.TaskReport, set()),
    (runs.TaskRates, task.TaskRates, {"since"}),
    (runs.Counters, task.Counters, set()),
    (runs.PartitionProgress, task.PartitionProgress, set()),
    (runs.TaskEvent, task.TaskEventRecord, set()),
    (runs.Archived, mapping.Archived, set()),
    (runs.PartitionMapping, mapping.PartitionMapping, set()),
    (runs.PartitionOwner, mapping.PartitionOwner, set()),
    (runs.PartitionOwnership, mapping.PartitionOwnership, set()),
    (runs.TransactionalIdOwner, mapping.TransactionalIdOwner, set()),
    (ids.IdFormula, id_formulas.IdFormula, set()),
    (ids.ImportLine, id_import.ImportLine, set()),
    (ids.IdCount, id_registry.IdCount, set()),
    (fencing.CoordinatorRecord, evidence.CoordinatorRecord, set()),
    (fencing.GroupRecord, evidence.GroupRecord, set()),
    (fencing.MarkerRecord, evidence.MarkerRecord, set()),
    (fencing.ClientWord, evidence.ClientWord, set()),
    (fencing.CommandWord, evidence.CommandWord, set()),
    (fencing.FencingPlace, record.FencingPlace, set()),
    (fencing.Moment, story.Moment, set()),
    (fencing.RecordedState, live_transactions.RecordedState, set()),
    (fencing.TopicPartitions, transaction_state.TopicPartitions, set()),
    (stuck_schemas.Explanation, diagnosis.Explanation, set()),
    (stuck_schemas.Diagnosis, diagnosis.Diagnosis, set()),
    (stuck_schemas.Link, diagnosis.Link, set()),
    (stuck_schemas.Holder, diagnosis.Holder, set()),
    (stuck_schemas.Plan, ending.Plan, {"known"}),
    (stuck_schemas.EndPlan, ending.EndPlan, {"known"}),
    (stuck_schemas.OpenTransaction, facts.OpenTransaction, set()),
    (stuck_schemas.Fenced, stuck_services.Fenced, set()),
    (stuck_schemas.Ended, stuck_services.Ended, set()),
    (offsets.OffsetChange, offset_reset.OffsetChange, set()),
    (log_schemas.PartitionLog, partition_log.PartitionLog, set()),
    (log_schemas.LogBounds, look.LogBounds, set()),
    (log_schemas.LogEntry, entries.LogEntry, set()),
    (log_schemas.Decided, entries.Decided, set()),
    (log_schemas.LogRecord, content.LogRecord, set()),
    (log_schemas.Header, content.Header, set()),
    (log_schemas.Content, content.Content, set()),
    (webhook_schemas.Delivery, webhook.Delivery, set()),
    (access_schemas.Principal, access.Principal, set()),
    (access_schemas.Token, access.Token, set()),
    (access_schemas.Session, access.Session, set()),
    (access_schemas.Command, command.Command, set()),
]
"""What goes out, with what is kept back on purpose. Properties of a record may be added."""


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


@pytest.mark.parametrize(("model", "record", "kept_back"), ANSWERS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_goes_out_mirrors_its_record(
    model: type[BaseModel], record: type[msgspec.Struct], kept_back: set[str]
) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(record)}
    if record.__struct_config__.tag_field is not None:
        names.add(record.__struct_config__.tag_field)
    derived = {name for name in dir(record) if isinstance(getattr(record, name), property)}
    assert kept_back <= names
    assert names - kept_back <= set(model.model_fields) <= names - kept_back | derived


def test_every_schema_is_compared_or_is_made_here() -> None:
    """A new schema cannot be forgotten above."""
    compared = {model for model, _ in GIVEN} | {model for model, _, _ in ANSWERS}
    lists = {model for model in _below(Answer) if {"items"} <= set(model.model_fields) <= {"items", "next_cursor"}}
    made_here = {
        pipelines.Validation,
        pipelines.Diff,
        access_schemas.NewToken,
        Body,
        # Bodies of commands: they carry arguments of a service, not a record.
        clusters.ClusterGiven,
        pipelines.PipelineGiven,
        pipelines.ChangeGiven,
        pipelines.DefinitionGiven,
        runs.Reason,
        runs.RestartGiven,
        runs.StartGiven,
        drill_schemas.DrillGiven,
        foreign_schemas.ForeignMigrationGiven,
        migration_schemas.MigrationGiven,
        migration_schemas.RollbackGiven,
        migration_schemas.IdToFence,
        migration_schemas.Gate,
        offsets.OffsetResetGiven,
        offsets.ExpectedOffset,
        access_schemas.TokenGiven,
        webhook_schemas.WebhookGiven,
        webhook_schemas.WebhookChangeGiven,
        ids.ImportGiven,
        audit_schemas.AuditGiven,
        audit_schemas.AuditPlanGiven,
        orphan_schemas.CollectGiven,
        # Moments instead of milliseconds.
        audit_schemas.TimeWindow,
        # With a sentence; with when the next window is due.
        audit_schemas.Audit,
        audit_schemas.AuditPlan,
        # With whether it is valid; with what the journal says, in moments; a named tuple.
        ids.ImportPlan,
        ids.RegisteredId,
        ids.Registry,
        ids.IdTally,
        # A webhook with its counts; its address depends on who asks.
        webhook_schemas.Webhook,
        stuck_schemas.FenceTarget,
        stuck_schemas.FenceGiven,
        stuck_schemas.EndTarget,
        stuck_schemas.EndGiven,
        offset_schemas.OffsetLog,
        # With the lengths of its phases, which are made here.
        file_schemas.FileCheckpoint,
        file_schemas.PhaseLengths,
        # `schema` is a name that pydantic keeps for itself.
        file_schemas.FileSchema,
        file_schemas.SchemaInHistory,
        # What the brokers say, put together from several records and into people's words.
        hanging.HangingTransaction,
        hanging.HangingNow,
        hanging.HangingRecord,
        hanging.BlockingOffset,
        hanging.UnclearPartition,
        hanging.HangingSearch,
        hanging.Hanging,
        reading.ObserverReading,
        reading.BrokerClock,
        reading.JournalReading,
        reading.PartitionsOfTopic,
        transactions.IdOwner,
        transactions.Transaction,
        transactions.TransactionDetail,
        transactions.TransactionList,
        transactions.TransactionPace,
        transactions.PaceSample,
        transactions.Step,
        transactions.PendingOffset,
        groups.Group,
        groups.GroupDetail,
        groups.GroupList,
        groups.Member,
        groups.StoredOffset,
        groups.Rebalance,
        clusters.ClusterSurvey,
        fencing.Verdict,
        fencing.Correction,
        fencing.FencingEvent,
        fencing.FencingEventDetail,
    }
    assert set(_below(Given)) | set(_below(Answer)) == compared | lists | made_here


def _below(model: type[BaseModel]) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    for child in model.__subclasses__():
        found += [child, *_below(child)]
    return found


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
