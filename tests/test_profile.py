"""What the profile of the loop makes of what py-spy and perf print."""

from __future__ import annotations

import pytest

from bench.profile_loop import in_the_loop, parts_of, shares_of

REPORT = """
# Overhead  Command      Shared Object
# ........  ...........  ....................
#
    40.00%  python       libpython3.11.so.1.0
    20.00%  python       librdkafka.so.1
    30.00%  rdk:broker1  librdkafka.so.1
    10.00%  rdk:broker1  [kernel.kallsyms]
"""


def test_libraries_of_the_loops_thread_are_shares_of_that_thread_alone() -> None:
    found = in_the_loop(shares_of(REPORT))
    assert found == {"libpython3.11.so.1.0": pytest.approx(0.6667), "librdkafka.so.1": pytest.approx(0.3333)}


def test_samples_outside_of_the_loop_do_not_count() -> None:
    raw = "main;TaskLoop._turn;write_messages 6\nmain;TaskLoop._turn;Membership.consume 2\nmain;other 90\n"
    found = parts_of(raw)
    assert found["hand the records to the producer"] == 0.75
    assert found["read: wait for records, make Message objects"] == 0.25
