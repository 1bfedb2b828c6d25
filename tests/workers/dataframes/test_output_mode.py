"""The warning of output mode complete. The DataFrame is a double: nothing is started."""

from __future__ import annotations

import warnings
from unittest.mock import MagicMock

import pytest
from fenceline_spark import exactly_once


def start(output_mode: str) -> None:
    exactly_once(
        MagicMock(), bootstrap_servers="b:9092", name="q", checkpoint="/c", topic="out", output_mode=output_mode
    )


@pytest.mark.parametrize("output_mode", ["complete", "Complete"])
def test_complete_is_warned_of(output_mode: str) -> None:
    with pytest.warns(UserWarning, match="all rows of the result to Kafka again in every batch; use update or append"):
        start(output_mode)


@pytest.mark.parametrize("output_mode", ["append", "update"])
def test_the_other_modes_are_not(output_mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(output_mode)
