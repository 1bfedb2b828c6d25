"""Checks of a recomputation by the pipeline's definition alone; workers/comparison/recomputable.py checks the plan."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.pipelines.pipeline import OutputMode, PipelineDefinition
from app.kit.errors import Problem
from app.products.audits.comparison import Comparison
from app.products.audits.specification import HeaderId, IdPlace


def recomputation_problems(
    comparison: Comparison, definition: PipelineDefinition, id_place: IdPlace, source_id_place: IdPlace | None
) -> Iterator[Problem]:
    """Yield the problems of a recomputation, each with its field."""
    query = definition.dataframe
    if query is None:
        message = "Only pipelines of kind dataframe are recomputed. Audit the pipeline, or name another baseline"
        yield Problem(field="comparison.baseline", message=message)
    elif query.output_mode is OutputMode.COMPLETE:
        message = "Output mode complete writes all rows in each batch, so no committed row is final"
        yield Problem(field="comparison.baseline", message=message)
    if comparison.time_field is None:
        message = "Name the field of outputs with their event time, such as the start of the window"
        yield Problem(field="comparison.time_field", message=message)
    if comparison.baseline_time_field is not None:
        message = "Leave the field out: recomputed rows have the same fields as outputs"
        yield Problem(field="comparison.baseline_time_field", message=message)
    if source_id_place is not None:
        message = "Leave the place out: recomputed rows have the id where outputs have it"
        yield Problem(field="source_id_place", message=message)
    if isinstance(id_place, HeaderId):
        message = "Recomputed rows are identified by the key or a field of the value"
        yield Problem(field="id_place", message=message)
