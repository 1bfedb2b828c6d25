"""The rules of Spark that decide whether a streaming query has the same rows as a batch query over the same records.

Rows that depend on one source record each are comparable, and so is one aggregation by windows of event time. A window
is final once the watermark has passed its end. The rules read the analyzed plan of the streaming query, as JSON
(org.apache.spark.sql.catalyst.trees.TreeNode, Spark 4.2): a list of its nodes, with their expressions as lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from app.core.pipelines.pipeline import DataframeQuery, OutputMode

Node = dict[str, Any]

_STATEFUL = {
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "FlatMapGroupsWithState": "mapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
}
_REFUSED = {
    **{
        name: f"{function} has its state and timers from batch to batch. A batch job has all rows of a key in one "
        "call, so other rows"
        for name, function in _STATEFUL.items()
    },
    "Join": "A join has rows that depend on the state at the time of a batch. Compare with another system's output",
    "DeduplicateWithinWatermark": "Spark has no dropDuplicatesWithinWatermark in batch jobs",
    "Deduplicate": "Of several duplicates the query keeps the first to arrive, and a batch job any",
    "Distinct": "DISTINCT drops rows that repeat earlier ones, which may lie before the range",
    "GlobalLimit": "LIMIT keeps the first rows to arrive, and a batch job any",
    "FlatMapGroupsInPandas": "applyInPandas has the rows of a group in one batch only",
}
"""The reasons, by the class of a node."""

_COMPARED = frozenset(
    {
        *("Aggregate", "Project", "Filter", "Expand", "Generate", "Union", "SubqueryAlias", "View", "ResolvedHint"),
        *("WithCTE", "CTERelationDef", "CTERelationRef", "MapInPandas", "MapInArrow", "PythonMapInArrow"),
        *("Repartition", "RepartitionByExpression", "EventTimeWatermark", "LocalRelation", "OneRowRelation"),
        *("StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation"),
    }
)
"""Nodes whose rows depend on the records alone."""

_OF_ORDER = {
    "First": "first",
    "Last": "last",
    "AnyValue": "any_value",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "ListAgg": "listagg",
    "MaxBy": "max_by",
    "MinBy": "min_by",
    "Mode": "mode",
    "ApproximatePercentile": "approx_percentile",
}
"""Aggregate functions that depend on the order of rows, by class; Spark calls them deterministic all the same."""

_OF_NOW = frozenset(
    {"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime", "CurrentBatchTimestamp"}
)


class NotRecomputableError(Exception):
    """The query has no rows that a batch job could prove; the message has the reason."""


class Recomputable(NamedTuple):
    """The rules for the rows of a query.

    is_windowed: a row is final once the watermark has passed it. Others are, once they are committed.
    window_ms: the longest window. keeps_last: the last row of a window counts.
    """

    is_windowed: bool
    window_ms: int
    keeps_last: bool


def recomputable(plan: Sequence[Node], query: DataframeQuery, *, columns: Sequence[str]) -> Recomputable:
    """Return the rules for the rows of a query.

    Args:
        plan: the analyzed streaming plan.
        columns: of the rows for the sink.

    Raises:
        NotRecomputableError: its rows cannot be compared with those of a batch.
    """
    names = [_name(node) for node in plan]
    for name in names:
        if name in _REFUSED:
            raise NotRecomputableError(f"{_REFUSED[name]}.")
        if name not in _COMPARED:
            raise NotRecomputableError(f"The plan has a node {name}, of which no rule is known.")
    expressions = {_name(node) for node in _all_nodes(plan)}
    for name in sorted(expressions & _OF_ORDER.keys()):
        raise NotRecomputableError(f"{_OF_ORDER[name]} depends on the order of rows, which a batch job does not keep.")
    if expressions & _OF_NOW:
        raise NotRecomputableError("The query uses the current time, so a later job has other rows.")
    if names.count("Aggregate") == 0:
        if query.output_mode is OutputMode.COMPLETE:
            raise NotRecomputableError("Output mode complete writes all rows in each batch: no row is final.")
        return Recomputable(is_windowed=False, window_ms=0, keeps_last=False)
    _check_aggregation(plan, names, query, columns)
    keeps_last = query.output_mode is OutputMode.UPDATE
    return Recomputable(is_windowed=True, window_ms=_length_ms(plan), keeps_last=keeps_last)


def _check_aggregation(
    plan: Sequence[Node], names: Sequence[str], query: DataframeQuery, columns: Sequence[str]
) -> None:
    if names.count("Aggregate") > 1:
        raise NotRecomputableError("The query aggregates twice: its second windows end at an unknown watermark.")
    timeless = next((stream.name for stream in query.streams if stream.event_time is None), None)
    if timeless is not None:
        raise NotRecomputableError(f"Stream {timeless} has no event time, so no window of the query is ever final.")
    watermarks = [node for node in plan if _name(node) == "EventTimeWatermark"]
    columns_of_time = {stream.event_time for stream in query.streams}
    if len(watermarks) > sum(name.startswith("Streaming") for name in names) or any(
        attribute["name"] not in columns_of_time for node in watermarks for attribute in _attributes(node["eventTime"])
    ):
        raise NotRecomputableError("The query sets a watermark of its own. Set event_time of the stream instead.")
    if query.output_mode is OutputMode.COMPLETE:
        raise NotRecomputableError("Output mode complete writes all windows in each batch: no row is final.")
    (aggregate,) = (node for node in plan if _name(node) == "Aggregate")
    if any(one["name"] == "session_window" for one in _attributes(aggregate["groupingExpressions"])):
        raise NotRecomputableError("Session windows have no fixed length, so their first record is not known.")
    if query.output_mode is not OutputMode.UPDATE:
        # Spark has checked for append that the groups have a watermark.
        return
    if not _is_by_event_time(plan, aggregate, watermarks):
        raise NotRecomputableError("The groups have no window of the event time, so they are never final.")
    if "key" not in columns or "partition" in columns:
        # Only the order of one partition is known.
        raise NotRecomputableError("Output mode update requires a column key and no column partition.")


def _is_by_event_time(plan: Sequence[Node], aggregate: Node, watermarks: Sequence[Node]) -> bool:
    """True if a group has the column of the watermark, or a window of it."""
    of_time = {_id(one) for node in watermarks for one in _attributes(node["eventTime"])}
    groups = {_id(one) for one in _attributes(aggregate["groupingExpressions"])}
    if groups & of_time:
        return True
    return any(_id(one) in of_time for expression in _windows(plan) for one in _attributes(expression)) and any(
        one["name"] == "window" for one in _attributes(aggregate["groupingExpressions"])
    )


def _length_ms(plan: Sequence[Node]) -> int:
    """Return the longest window; 0 for groups of the event time itself.

    Spark's analyzer makes a window of `start` and `end = start + length`, so the length is the last number in it
    (org.apache.spark.sql.catalyst.analysis.TimeWindowing).
    """
    lengths = [
        int(literals[-1])
        for expression in _windows(plan)
        if (literals := [one["value"] for one in _all_nodes(expression) if _is_long(one)])
    ]
    return -(-max(lengths, default=0) // 1_000)


def _is_long(node: Node) -> bool:
    return _name(node) == "Literal" and node.get("dataType") == "long"


def _windows(plan: object) -> Iterator[list[Node]]:
    """Yield the expressions that make windows."""
    for expression in _lists(plan):
        heads = [_name(node) for node in expression[:3]]
        if "CreateNamedStruct" in heads:
            after = expression[heads.index("CreateNamedStruct") + 1]
            if _name(after) == "Literal" and after.get("value") == "start":
                yield expression


def _lists(value: object) -> Iterator[list[Node]]:
    """Yield all lists of nodes in the JSON."""
    if isinstance(value, list):
        several = cast("list[object]", value)
        if several and all(isinstance(one, dict) and "class" in one for one in several):
            yield cast("list[Node]", several)
        for one in several:
            yield from _lists(one)
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, object]", value).values():
            yield from _lists(one)


def _all_nodes(value: object) -> Iterator[Node]:
    """Yield all nodes in the JSON, in their order."""
    if isinstance(value, Mapping):
        node = cast("Node", value)
        if "class" in node:
            yield node
        for one in node.values():
            yield from _all_nodes(one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in cast("Sequence[object]", value):
            yield from _all_nodes(one)


def _attributes(value: object) -> Iterator[Node]:
    return (node for node in _all_nodes(value) if _name(node) == "AttributeReference")


def _id(attribute: Node) -> int:
    return attribute["exprId"]["id"]


def _name(node: Node) -> str:
    return str(node.get("class", "")).rpartition(".")[2]
