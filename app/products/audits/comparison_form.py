"""The form of a comparison: its texts, and the comparison that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from app.kit.errors import InvalidError
from app.kit.moments import WordsError, span_of, span_text
from app.products.audits.comparison import Comparison, TableBaseline
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan
from app.products.audits.specification import IdPlace
from app.products.audits.words import baseline_of, baseline_text, id_place_of, id_place_text

FIELDS = (
    "baseline", "url", "user", "password", "driver", "output_topic", "id_place", "source_id_place", "time_field",
    "baseline_time_field", "fields", "ignored_fields", "number_tolerance", "from", "to", "padding", "every",
    "tolerance", "why",
)  # fmt: skip
"""The names of the form's fields."""

OF_PROBLEMS = {
    "comparison.baseline.url": "url",
    "comparison.baseline.user": "user",
    "comparison.baseline.password": "password",
    "comparison.baseline.driver": "driver",
    "comparison.baseline": "baseline",
    "comparison.output_topic": "output_topic",
    "comparison.time_field": "time_field",
    "comparison.baseline_time_field": "baseline_time_field",
    "comparison.fields": "fields",
    "comparison.ignored_fields": "ignored_fields",
    "comparison.tolerance": "number_tolerance",
    "comparison": "baseline",
    "id_place": "id_place",
    "source_id_place": "source_id_place",
    "window.start": "from",
    "window.end": "to",
    "padding_s": "padding",
    "every_s": "every",
    "tolerance_s": "tolerance",
}
"""The form's field for each problem's field; a more exact one comes first."""


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of the texts, without the window."""

    comparison: Comparison
    id_place: IdPlace
    source_id_place: IdPlace | None
    padding_s: int
    every_s: int | None
    tolerance_s: int


def texts_of(plan: AuditPlan | None) -> dict[str, str]:
    """Return the initial texts: those of the plan, and the last hour."""
    texts = dict.fromkeys(FIELDS, "") | {
        "from": "1h",
        "to": "now",
        "padding": span_text(DEFAULT_PADDING_S),
        "tolerance": span_text(DEFAULT_TOLERANCE_S),
    }
    if plan is None or plan.comparison is None:
        return texts
    comparison, baseline = plan.comparison, plan.comparison.baseline
    if isinstance(baseline, TableBaseline):
        texts |= {name: getattr(baseline, name) or "" for name in ("url", "user", "password", "driver")}
    return texts | {
        "baseline": baseline_text(baseline),
        "output_topic": comparison.output_topic or "",
        "id_place": id_place_text(plan.id_place),
        "source_id_place": "" if plan.source_id_place is None else id_place_text(plan.source_id_place),
        "time_field": comparison.time_field or "",
        "baseline_time_field": comparison.baseline_time_field or "",
        "fields": " ".join(comparison.fields),
        "ignored_fields": " ".join(comparison.ignored_fields),
        "number_tolerance": f"{comparison.tolerance:g}" if comparison.tolerance else "",
        "padding": span_text(plan.padding_s),
        "tolerance": span_text(plan.tolerance_s),
        "every": "" if plan.every_s is None else span_text(plan.every_s),
    }


def typed(texts: Mapping[str, str]) -> Typed:
    """Return the meaning of the texts. Raises InvalidError for the first that has none."""
    text = {name: texts.get(name, "").strip() for name in FIELDS}
    try:
        baseline = baseline_of(
            text["baseline"],
            url=text["url"],
            user=text["user"],
            password=text["password"],
            driver=text["driver"],
        )
    except WordsError as error:
        raise InvalidError(str(error), field="comparison.baseline") from error
    comparison = Comparison(
        baseline=baseline,
        output_topic=text["output_topic"] or None,
        time_field=text["time_field"] or None,
        baseline_time_field=text["baseline_time_field"] or None,
        fields=tuple(text["fields"].split()),
        ignored_fields=tuple(text["ignored_fields"].split()),
        tolerance=_number(text["number_tolerance"]),
    )
    return Typed(
        comparison=comparison,
        id_place=place_of(text["id_place"], "id_place"),
        source_id_place=place_of(text["source_id_place"], "source_id_place") if text["source_id_place"] else None,
        padding_s=seconds_of(text["padding"], "padding_s"),
        every_s=seconds_of(text["every"], "every_s") if text["every"] else None,
        tolerance_s=seconds_of(text["tolerance"], "tolerance_s"),
    )


def place_of(text: str, field: str) -> IdPlace:
    """Return the place of an id. Raises InvalidError at `field`."""
    try:
        return id_place_of(text)
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error


def seconds_of(text: str, field: str) -> int:
    """Return the seconds of a span such as 5m. Raises InvalidError at `field`."""
    try:
        return int(span_of(text.strip()) / timedelta(seconds=1))
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError as error:
        raise InvalidError(f"`{text}` is not a number", field="comparison.tolerance") from error
