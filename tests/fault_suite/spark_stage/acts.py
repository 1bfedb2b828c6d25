"""The common part of the stage's parts: each brings its kinds of faults, and their acts."""

from __future__ import annotations

from collections.abc import Callable

from tests.fault_suite.plan import Fault
from tests.fault_suite.proxied_cluster import Did, Wait

Act = Callable[[Fault, Did, Wait], None]
"""Do it, wait for as long as it lasts, and end it. Raises AssertionError where it could not be done."""
