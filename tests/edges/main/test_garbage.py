"""The server collects garbage rarely, and never visits the objects of its start."""

from __future__ import annotations

import subprocess
import sys

_SHOWN = """
import gc
from app.edges.main.serving import collect_garbage_rarely

defaults = gc.get_threshold()
collect_garbage_rarely()
at_start = gc.get_freeze_count()
collections = gc.get_stats()[2]["collections"]
kept = [[] for _ in range(200 * defaults[0])]
assert at_start > len(gc.get_objects()) - len(kept), "the objects of the start are not frozen"
assert gc.get_stats()[2]["collections"] == collections, "a full collection came"
"""


def test_new_objects_alone_do_not_lead_to_a_full_collection() -> None:
    subprocess.run([sys.executable, "-c", _SHOWN], check=True, timeout=60)
