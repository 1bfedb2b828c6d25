from __future__ import annotations

from typing import Any

import pytest

from tests.fault_suite.decided import Writer
from tests.fault_suite.rest import AtRest, Ends

WELL: dict[str, Any] = {
    "source": Ends({0: 5, 1: 0}, {0: 5, 1: 0}),
    "sink": Ends({0: 9}, {0: 9}),
    "committed": {0: 5},
    "open": {"the sink": []},
    "untransacted": [],
}


def test_at_rest_nothing_contradicts() -> None:
    assert AtRest(**WELL).contradictions() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sink": Ends({0: 8}, {0: 9})}, "partition 0 of the sink ends at 9 and is readable up to 8"),
        ({"source": Ends({0: 5, 1: 0}, {0: 5, 1: 1}), "committed": {0: 5, 1: 1}}, "partition 1 of the source ends at"),
        ({"committed": {0: 4}}, "partition 0 is consumed up to 4 of 5"),
        ({"committed": {}}, "partition 0 is consumed up to None of 5"),
        ({"committed": {0: 6}}, "partition 0 is consumed up to 6 of 5"),
        ({"open": {"the sink": [Writer(7, 1)]}}, "the sink has an open transaction of Writer(producer_id=7"),
        ({"untransacted": ["partition 0 to 5"]}, "1 offsets outside of a transaction, first: partition 0 to 5"),
    ],
)
def test_each_thing_that_is_not_at_rest_is_reported(changes: dict[str, Any], told: str) -> None:
    (contradiction,) = AtRest(**{**WELL, **changes}).contradictions()
    assert contradiction.startswith(told)
