"""Kill the driver of the third pipeline between the commit of a batch and the checkpoint's record of it.

Spark then runs the batch again. Only the marker in the committed transaction says that its rows are there already.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.core.journals.transaction_state import TransactionState, TransactionStatus
from app.edges.embedded.errors import EmbeddedError
from app.products.demo.kill import IdTail

# The time in which the broker answers requests that were in flight when the driver froze.
_SETTLE_S = 0.02
# The driver needs longer from its commit to the checkpoint's record: Python's answer to Java, and a file.
_SLICE_S = 0.01
_LOOK_EVERY_S = 0.1
_COMMITTED = frozenset({TransactionStatus.COMPLETE_COMMIT})
_BEGUN = _COMMITTED | {TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT}
_DRIVER_WORD = "org.apache.spark.deploy.SparkSubmit"


@dataclass(frozen=True, slots=True)
class KilledDriver:
    """A killed driver: the process of its JVM, and the batch whose commit its checkpoint did not record."""

    pid: int
    batch: int


def kill_after_a_commit(
    journal: IdTail, transactional_id: str, *, pid: int, checkpoint: Path, give_up: Callable[[], bool]
) -> KilledDriver | None:
    """SIGKILL the driver in the moment after the commit; None if `give_up` came first.

    1. the journal has a transaction that began after the newest batch was planned
    2. SIGSTOP, read the journal, SIGCONT for 10 ms, and again: on a busy machine, too, the moment is not missed
    3. the transaction is committed, and the checkpoint has no record of the batch: SIGKILL
    """
    _refuse_other_process(pid)
    while not give_up():
        batch = _unrecorded(journal.follow(transactional_id, _LOOK_EVERY_S), _BEGUN, checkpoint)
        while batch is not None and not give_up():
            os.kill(pid, signal.SIGSTOP)
            killed = False
            try:
                time.sleep(_SETTLE_S)
                state = journal.state_of(transactional_id)
                if _unrecorded(state, _COMMITTED, checkpoint) == batch:
                    os.kill(pid, signal.SIGKILL)
                    killed = True
                    return KilledDriver(pid, batch)
                batch = _unrecorded(state, _BEGUN, checkpoint)
            finally:
                if not killed:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            time.sleep(_SLICE_S)
    return None


def _unrecorded(state: TransactionState | None, wanted: Collection[TransactionStatus], checkpoint: Path) -> int | None:
    """Return the newest planned batch if its transaction has a wanted status and the checkpoint no record of it."""
    if state is None or state.status not in wanted:
        return None
    planned = _newest(checkpoint / "offsets")
    if planned is None or (checkpoint / "commits" / str(planned)).exists():
        return None
    try:
        planned_ms = (checkpoint / "offsets" / str(planned)).stat().st_mtime * 1000
    except FileNotFoundError:
        return None
    return planned if state.start_ms >= planned_ms else None


def _newest(folder: Path) -> int | None:
    numbers = [int(file.name) for file in folder.glob("[0-9]*") if file.name.isdecimal()] if folder.is_dir() else []
    return max(numbers, default=None)


def _refuse_other_process(pid: int) -> None:
    """Raise if the process is not a driver of Spark, which must not be signalled."""
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error as error:
        raise EmbeddedError(f"the driver with process id {pid} is gone before it was killed: {error}") from error
    if _DRIVER_WORD not in command:
        raise EmbeddedError(f"process {pid} is no driver of Spark: {command[:200]}")
