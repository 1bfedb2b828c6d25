"""Sample records and trials beside the form of a pipeline, and the names that the form suggests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from app.core.clusters.cluster import Cluster
from app.core.journals.log_look import Landmark, parse_start
from app.core.pipelines.pages.form import definition_of
from app.core.pipelines.pipeline import PipelineDefinition, Steps
from app.core.pipelines.ports import TopicReader
from app.core.pipelines.service.trying import (
    SAMPLES,
    TRIED,
    ShownRecord,
    Trial,
    TrialQuery,
    read_samples,
    reader_of,
    try_pipeline,
)
from app.core.transforms.field_path import FieldPathError, parse
from app.core.transforms.sampled_fields import MOST_FIELDS, fields_of, unknown_fields
from app.core.wiring import Wiring
from app.kit.access import Principal
from app.kit.errors import FencelineError, InvalidError, Problem
from app.kit.web.pages.form_errors import problems_of

SAMPLE, TRY = "samples", "try"
TOPIC = "try.topic"
DEFAULTS = {"try.records": str(TRIED), TOPIC: "", "try.partition": "", "try.from": Landmark.END.value, "sampled": ""}
MOST_SUGGESTED = 50
_LONGEST_SAMPLED = 100_000
_NAMES_WITHIN_S = 1.0
_TOPIC_FIELDS = re.compile(r"source_topics|sink_topic|errors\.dead_letter_topic|transform\.(steps|streams)\.\d+\.topic")


@dataclass(frozen=True, kw_only=True)
class RecordsPanel:
    """The content of the panel: samples, or a trial, or the reason why there are none.

    topics: those that were read. errors: by their sentences.
    sampled: the fields of the records that were read last, which the form posts again.
    """

    samples: Sequence[ShownRecord] = ()
    trial: Trial | None = None
    topics: Sequence[str] = ()
    notes: Sequence[str] = ()
    errors: Sequence[str] = ()
    sampled: Sequence[str] = ()


async def panel_of(wiring: Wiring, by: Principal, values: Mapping[str, str], do: str) -> RecordsPanel:
    """Read the records that the button asks for. A refusal, or brokers that do not answer, is a sentence there."""
    before = sampled_of(values)
    try:
        if do == SAMPLE:
            return await _samples(wiring, by, values)
        decoded = definition_of(values)
        if not isinstance(decoded, PipelineDefinition):
            return RecordsPanel(errors=_sentences(decoded), sampled=before)
        query = _query(values, topic=None if decoded.dataframe is not None else chosen_topic(values))
        async with wiring.unit_of_work() as uow:
            trial = await try_pipeline(
                uow,
                reader_of(wiring.parts),
                definition=decoded,
                query=query,
                allowed=wiring.allowed_options,
                by=by,
            )
    except FencelineError as error:
        return RecordsPanel(errors=_sentences(problems_of(error)), sampled=before)
    return RecordsPanel(trial=trial, topics=trial.topics, notes=trial.notes, sampled=trial.fields or before)


async def _samples(wiring: Wiring, by: Principal, values: Mapping[str, str]) -> RecordsPanel:
    topic = chosen_topic(values)
    if topic is None:
        raise InvalidError("Name a source topic first", field="source_topics")
    async with wiring.unit_of_work() as uow:
        shown, found = await read_samples(
            uow, reader_of(wiring.parts), cluster=values.get("cluster", ""), topic=topic, by=by, limit=SAMPLES
        )
    fields = fields_of(record.value for record in found.records)
    return RecordsPanel(samples=shown, topics=(topic,), notes=found.notes, sampled=fields)


def source_topics(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the source topics that the form names, in order."""
    return tuple(dict.fromkeys(part for part in re.split(r"[,\s]+", values.get("source_topics", "")) if part))


def chosen_topic(values: Mapping[str, str]) -> str | None:
    """Return the source topic that is chosen beside the form; the first one if it is none any more."""
    topics, chosen = source_topics(values), values.get(TOPIC, "")
    return chosen if chosen in topics else next(iter(topics), None)


def _query(values: Mapping[str, str], *, topic: str | None) -> TrialQuery:
    """Raises InvalidError with the field."""
    numbers: dict[str, int | None] = {}
    for field, words in (("try.records", "number of records"), ("try.partition", "partition")):
        text = values.get(field, "").strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise InvalidError(f"{text[:80]} is no {words}", field=field)
        numbers[field] = int(text) if text else None
    records = numbers["try.records"]
    return TrialQuery(
        records=TRIED if records is None else records,
        topic=topic,
        partition=numbers["try.partition"],
        start=parse_start(values.get("try.from", "").strip() or Landmark.END.value),
    )


def _sentences(problems: Sequence[Problem]) -> list[str]:
    return [f"{problem.field}: {problem.message}" if problem.field else problem.message for problem in problems]


def sampled_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the posted fields of the records that were read last; none if the text is not the form's own."""
    text = values.get("sampled", "")
    with suppress(json.JSONDecodeError, RecursionError):
        found: Any = json.loads(text) if 0 < len(text) <= _LONGEST_SAMPLED else []
        if isinstance(found, list):
            return tuple(
                one for one in cast("list[object]", found)[:MOST_FIELDS] if isinstance(one, str) and _fits(one)
            )
    return ()


def _fits(path: str) -> bool:
    try:
        parse(path)
    except FieldPathError:
        return False
    return True


def field_hints(values: Mapping[str, str]) -> list[Problem]:
    """Return a warning for each field of a step that no sample record has."""
    decoded = definition_of(values)
    if not isinstance(decoded, PipelineDefinition) or not isinstance(decoded.transform, Steps):
        return []
    return unknown_fields(decoded.transform.steps, sampled_of(values))


async def suggested_topics(
    wiring: Wiring, cluster: Cluster | None, values: Mapping[str, str]
) -> Mapping[str, Sequence[str]]:
    """Return at most MOST_SUGGESTED topics for each field that names one, by what is typed there.

    Empty if the brokers do not answer at once: the form does not wait for them. A list is completed at its last name.
    """
    reader = cast("TopicReader | None", wiring.parts.get(TopicReader))
    if cluster is None or reader is None:
        return {}
    try:
        async with asyncio.timeout(_NAMES_WITHIN_S):
            names = await reader.names(cluster)
    except (FencelineError, TimeoutError):
        return {}
    fields = {"source_topics", "sink_topic", "errors.dead_letter_topic", *filter(_TOPIC_FIELDS.fullmatch, values)}
    return {field: _completed(values.get(field, ""), names) for field in fields}


def _completed(typed: str, names: Sequence[str]) -> list[str]:
    before, last = cast("re.Match[str]", re.fullmatch(r"(.*[,\s])?([^,\s]*)", typed, re.DOTALL)).groups("")
    part = last.casefold()
    found = [name for name in names if part in name.casefold()]
    found.sort(key=lambda name: not name.casefold().startswith(part))
    return [f"{before}{name}" for name in found[:MOST_SUGGESTED]]
