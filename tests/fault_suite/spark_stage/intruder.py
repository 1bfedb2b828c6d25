"""Applications that hold an ordinal beside the one to which it was leased, and know no server."""

from __future__ import annotations

from app.core.pipelines.pipeline import PipelineDefinition
from tests.support.spark_instances import SparkInstances, StartedInstance

_DRAINED_S = 60.0


class Intruders:
    """At most one at a time.

    instances: submits with a folder of their own; what the server finds in its own folder is not theirs.
    """

    def __init__(
        self, instances: SparkInstances, definition: PipelineDefinition, *, pipeline: str, run_id: str
    ) -> None:
        self._instances = instances
        self._definition = definition
        self._pipeline = pipeline
        self._run_id = run_id
        self._current: StartedInstance | None = None

    def start(self, ordinal: int, lease: int) -> int | None:
        """The pid of its driver's JVM."""
        specification = self._instances.specification(
            self._definition, run_id=self._run_id, pipeline=self._pipeline, ordinal=ordinal, lease=lease
        )
        self._current = self._instances.submit(specification)
        return self._current.instance.jvm_pid

    def application_id(self) -> str:
        """The application id of the current one; waits until its driver has reported it. Raises AssertionError."""
        assert self._current is not None, "no application was started"
        return self._current.application_id

    def end(self) -> str:
        """Drain the current one, and return its end."""
        one, self._current = self._current, None
        if one is None:
            return "none was there"
        one.sigterm()
        try:
            seen = one.wait_until_gone(_DRAINED_S)
        except AssertionError:
            # It had not come so far that it could receive it.
            one.kill()
            return "killed"
        return "no report" if seen.outcome is None else f"{seen.outcome.kind}, {seen.outcome.message}"

    def close(self) -> None:
        """SIGKILL for every one that was started."""
        self._instances.kill_all()
