"""docs/measured/jobs.md shows what the jobs in the browser took; a bound is kept by every count but the tabs."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.browser.jobs.results import PAGE, Effort, page, read


def test_page_is_made_of_the_results() -> None:
    made_anew = "make it anew: python -m tests.browser.jobs.results"
    assert PAGE.read_text("utf-8") == page(read()), made_anew


def test_each_hand_has_done_all_ten_jobs() -> None:
    done = Counter(one.hand for one in read().results)
    assert done == {"mouse": 10, "keys": 10, "plain": 10}


def test_each_count_is_in_the_column_of_its_name() -> None:
    one = next(one for one in read().results if one.hand == "mouse" and one.effort.fields > 1)
    (row,) = re.findall(rf"^\| {re.escape(one.job)} \| (.*) \|$", page(read()).split("## By keys")[0], re.MULTILINE)
    assert row.split(" | ") == [
        *map(str, (one.effort.clicks, one.effort.fields, one.effort.pages)),
        f"{one.seconds:.1f}",
    ]


@pytest.mark.parametrize("count", ["clicks", "fields", "keys", "pages"])
def test_one_more_is_above_the_bound(count: str) -> None:
    most = Effort(clicks=2, fields=2, keys=2, pages=2)
    assert Effort(clicks=2, fields=2, keys=2, pages=2, tabs=99).is_within(most)
    assert not Effort(**{count: 3}).is_within(most)
