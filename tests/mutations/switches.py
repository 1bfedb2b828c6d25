"""The switches of the loop's protections, by name, and their way to a worker: its environment.

The product has no switches. A worker that is started with `at_start` in its path (tests/fault_suite/seams.py) applies
them once it has imported the loop. A test does it to its own process (`seams.switched_off`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tests.fault_suite.seams import Make, Seam

VARIABLE = "FENCELINE_TEST_SWITCHED_OFF"


class Switch(StrEnum):
    """Protections of any pipeline, those of file pipelines, then the guards that stand behind one of them."""

    OWNERSHIP_NUMBER = "ownership number"
    GENERATION = "generation metadata"
    REWIND = "rewinding after an abort"
    ABORT_ON_LOST = "abort on lost"
    DISCARD_PRODUCER = "discarding a producer of unknown outcome"
    READ_COMMITTED = "read_committed"
    INIT_BEFORE_OFFSETS = "init before offsets"

    FILES_AT_REVOKE = "files before a partition is given up"
    LETS_GO_FIRST = "half a batch let go before the group is left"
    HELD_UNTIL_READY = "no fetch before the producer is ready"
    FILED_OWNERSHIP = "ownership compared after the uploads"
    REVOKE_BY_ITSELF = "a revoke heard by itself"
    UPLOAD_DEADLINE = "uploads end with their time"

    COMMIT_ON_REVOKE = "commit in the revoke callback"
    CONFIRMED = "no answer older than a confirmed commit"
    BEGIN_REFUSED = "no begin before the commit is answered"
    BEGINS_AT_COMMITTED = "whoever gets a partition begins where it is committed"


def environment_of(switches: Iterable[Switch]) -> dict[str, str]:
    """For a worker that shall do without."""
    return {VARIABLE: ",".join(switches)}


def makers(environment: Mapping[str, str]) -> list[Make]:
    """For `sitecustomize`: nothing where nothing is named. Raises ValueError for a name that no switch has."""
    switches = [Switch(name) for name in environment.get(VARIABLE, "").split(",") if name]

    def make() -> list[Seam]:
        # Not above: it imports the loop, which is not there yet when Python starts.
        from tests.mutations.seams import seam_of

        return [seam_of(switch) for switch in switches]

    return [make] if switches else []
