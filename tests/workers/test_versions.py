"""Driver and task of different versions refuse each other and name both."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from workers.versions import VersionMismatchError, Versions, check_same, of_this_process

DRIVER = Versions(python="3.11.4", fenceline="0.1.0", package="abc", protocol=1, confluent_kafka="2.16.1")


@pytest.mark.parametrize(
    ("task", "named"),
    [
        (replace(DRIVER, python="3.12.1"), "Python: driver 3.11, task 3.12"),
        (replace(DRIVER, fenceline="0.2.0"), "Fenceline: driver 0.1.0, task 0.2.0"),
        (replace(DRIVER, package="def"), "Fenceline's package: driver abc, task def"),
        (replace(DRIVER, protocol=2), "protocol version: driver 1, task 2"),
        (replace(DRIVER, confluent_kafka="not installed"), "confluent-kafka: driver 2.16.1, task not installed"),
    ],
)
def test_a_difference_is_refused_with_both_versions(task: Versions, named: str) -> None:
    with pytest.raises(VersionMismatchError, match=named):
        check_same(DRIVER, task)


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(VersionMismatchError, match=r"Python: .*; Fenceline: "):
        check_same(DRIVER, replace(DRIVER, python="3.12.0", fenceline="0.2.0"))


def test_a_patch_release_of_python_is_no_difference() -> None:
    check_same(DRIVER, replace(DRIVER, python="3.11.9"))


def test_a_process_knows_its_versions() -> None:
    own = of_this_process()
    check_same(own, own)
    assert own.confluent_kafka.startswith("2.")
