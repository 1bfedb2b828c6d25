"""The wait after failures in a row."""

from __future__ import annotations

import msgspec

_MOST_DOUBLINGS = 64
"""Failures may continue for hours: 2.0 to the power of their number would overflow a float."""


class BackOff(msgspec.Struct, frozen=True):
    """`first_s` after the first failure, twice as long after each further one, at most `longest_s`."""

    first_s: float
    longest_s: float

    def wait_s(self, failures: int) -> float:
        """Return the wait after this number of failures in a row; without any there is no wait."""
        if failures <= 0:
            return 0.0
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
