"""The form of a comparison: its texts, and the comparison that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from app.kit.errors import InvalidError
from app.kit.moments import WordsError, span_of, span_text
from app.products.audits.comparison import Comparison, TableReference
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan
from app.products.audits.specification import IdPlace
from app.products.audits.words import id_place_of, id_place_text, reference_of, reference_text

FIELDS = (
    "reference", "url", "user", "password", "driver", "output_topic", "id_place", "source_id_place", "time_field",
    "reference_time_field", "fields", "ignored_fields", "number_tolerance", "from", "to", "padding", "every",
    "tolerance", "why",
)  # fmt: skip
"""The names of the form's fields."""

OF_PROBLEMS = {
    "comparison.reference.url": "url",
    "comparison.reference.user": "user",
    "comparison.reference.password": "password",
    "comparison.reference.driver": "driver",
    "comparison.reference": "reference",
    "comparison.output_topic": "output_topic",
    "comparison.time_field": "time_field",
    "comparison.reference_time_field": "reference_time_field",
    "comparison.fields": "fields",
    "comparison.ignored_fields": "ignored_fields",
    "comparison.tolerance": "number_tolerance",
    "comparison": "reference",
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
    """What the texts mean, apart from the window."""

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
    comparison, reference = plan.comparison, plan.comparison.reference
    if isinstance(reference, TableReference):
        texts |= {name: getattr(reference, name) or "" for name in ("url", "user", "password", "driver")}
    return texts | {
        "reference": reference_text(reference),
        "output_topic": comparison.output_topic or "",
        "id_place": id_place_text(plan.id_place),
        "source_id_place": "" if plan.source_id_place is None else id_place_text(plan.source_id_place),
        "time_field": comparison.time_field or "",
        "reference_time_field": comparison.reference_time_field or "",
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
        reference = reference_of(
            text["reference"],
            url=text["url"],
            user=text["user"],
            password=text["password"],
            driver=text["driver"],
        )
    except WordsError as error:
        raise InvalidError(str(error), field="comparison.reference") from error
    comparison = Comparison(
        reference=reference,
        output_topic=text["output_topic"] or None,
        time_field=text["time_field"] or None,
        reference_time_field=text["reference_time_field"] or None,
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
