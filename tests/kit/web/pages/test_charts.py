"""The attributes of a chart, which every frame of a stream has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import json

from app.core.journals.transaction_pace import PaceSample
from app.core.observing.pages.charts import age_chart_of, open_chart_of, pace_chart_of

BEGAN_S = 1_800_000_000
SAMPLES = tuple(
    PaceSample(BEGAN_S + second, open=second % 9, commits=1_500 + second, aborts=0, oldest_ms=1_234)
    for second in range(900)
)


def test_first_second_stands_for_all() -> None:
    said = json.decode(pace_chart_of(SAMPLES))
    assert said["first_s"] == BEGAN_S
    commits, aborts = said["data"]
    assert commits == [sample.commits for sample in SAMPLES]
    assert aborts == [0] * len(SAMPLES)
    assert json.decode(age_chart_of(SAMPLES))["data"] == [[1.2] * len(SAMPLES)]


def test_chart_of_nothing_has_no_second() -> None:
    assert json.decode(open_chart_of(()))["data"] == [[]]


@pytest.mark.parametrize("chart_of", [open_chart_of, age_chart_of, pace_chart_of])
def test_quarter_of_an_hour_is_a_few_bytes_a_second(chart_of: Callable[[Sequence[PaceSample]], str]) -> None:
    assert len(chart_of(SAMPLES)) < 8 * len(SAMPLES)
