"""The transactional ids of a definition, in the form in which they are shown."""

from __future__ import annotations

from app.core.ids.transactional_id import form_for_tasks, form_for_topic
from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee


def id_forms(definition: PipelineDefinition, name: str) -> tuple[str, ...]:
    """Return one form for each source topic with `exactly_once`, one with `exactly_once_v2`, none with
    `at_least_once`.
    """
    prefix = definition.transactional_id_prefix
    match definition.processing_guarantee:
        case ProcessingGuarantee.EXACTLY_ONCE:
            return tuple(
                form_for_topic(prefix=prefix, group=definition.group_id, topic=topic)
                for topic in definition.source_topics
            )
        case ProcessingGuarantee.EXACTLY_ONCE_V2:
            return (form_for_tasks(prefix=prefix, pipeline=name),)
        case ProcessingGuarantee.AT_LEAST_ONCE:
            return ()
