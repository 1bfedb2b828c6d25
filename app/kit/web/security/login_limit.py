"""Slow down guessing: after some failures from one address, its logins wait."""

from __future__ import annotations

from collections import OrderedDict, deque

_WINDOW_S = 60.0
_ADDRESSES_KEPT = 10_000


class LoginLimit:
    """Failures of each address in the last minute. In memory: with 256-bit tokens, a restart may forget them."""

    def __init__(self, *, failures_per_minute: int) -> None:
        self._allowed = failures_per_minute
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, address: str, *, now_s: float) -> float:
        """Return the seconds that this address must wait; 0 when it may try now."""
        failures = self._failures.get(address)
        if failures is None:
            return 0.0
        while failures and failures[0] <= now_s - _WINDOW_S:
            failures.popleft()
        if not failures:
            del self._failures[address]
            return 0.0
        return failures[0] + _WINDOW_S - now_s if len(failures) >= self._allowed else 0.0

    def failed(self, address: str, *, now_s: float) -> None:
        self._failures.setdefault(address, deque(maxlen=self._allowed)).append(now_s)
        self._failures.move_to_end(address)
        if len(self._failures) > _ADDRESSES_KEPT:
            self._failures.popitem(last=False)
