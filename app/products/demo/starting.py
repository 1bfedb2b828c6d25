"""Create the demo's pipelines over REST, as any client would, and wait until one runs."""

import time
from collections.abc import Callable

from rich.console import Console

from app.core.runs.task import TaskReport, TaskState
from app.edges.embedded.errors import EmbeddedError
from app.kit.patience import BUSY_MACHINE_S
from app.products.demo import file_pipeline, pipeline, window_pipeline
from app.products.demo.server import DemoRun
from app.products.demo.stage import CLUSTER, DemoStage

TOPICS = (pipeline.SOURCE_TOPIC, pipeline.SINK_TOPIC, file_pipeline.SINK_TOPIC, window_pipeline.SINK_TOPIC)
CORES = pipeline.CORES + file_pipeline.CORES


def start_pipeline(stage: DemoStage) -> DemoRun:
    """Create the first pipeline and start it."""
    stage.server.create_pipeline(
        pipeline.NAME, pipeline.definition(cluster=CLUSTER, spark_master=stage.spark.master_url)
    )
    stage.server.plan_audits(pipeline.NAME, pipeline.AUDIT_PLAN)
    return stage.server.start_run(pipeline.NAME)


def create_file_pipeline(stage: DemoStage) -> None:
    """Create the second pipeline, which the user starts."""
    stage.server.create_pipeline(
        file_pipeline.NAME,
        file_pipeline.definition(cluster=CLUSTER, spark_master=stage.spark.master_url, root=stage.files_root),
    )


def create_window_pipeline(stage: DemoStage) -> None:
    """Create the third pipeline, which the user starts."""
    stage.server.create_pipeline(
        window_pipeline.NAME,
        window_pipeline.definition(cluster=CLUSTER, checkpoint=stage.checkpoint(window_pipeline.NAME)),
    )


def wait_for_partitions(stage: DemoStage, run: DemoRun, console: Console) -> None:
    """Wait until the tasks hold all partitions between them, and each instance some."""
    with console.status("Spark starts two applications"):
        started = time.monotonic()

        def is_up(reports: list[TaskReport]) -> bool:
            working = [report for report in reports if report.state is TaskState.RUNNING and report.partitions]
            held = {(part.topic, part.partition) for report in working for part in report.partitions}
            ordinals = {report.ordinal for report in working}
            return len(held) == pipeline.PARTITIONS and len(ordinals) == pipeline.INSTANCES

        wait_for_tasks(stage, run, is_up, timeout_s=BUSY_MACHINE_S, what="both instances holding partitions")
    console.print(
        f"Both instances hold partitions ({time.monotonic() - started:.1f} s)", highlight=False, soft_wrap=True
    )


def wait_for_file_partitions(stage: DemoStage, run: DemoRun, console: Console) -> None:
    """Wait until the task of the second pipeline holds all partitions."""
    with console.status("Spark starts the second pipeline"):

        def is_up(reports: list[TaskReport]) -> bool:
            return any(
                report.state is TaskState.RUNNING and len(report.partitions) == pipeline.PARTITIONS
                for report in reports
            )

        wait_for_tasks(stage, run, is_up, timeout_s=BUSY_MACHINE_S, what="the second pipeline holding its partitions")


def wait_for_tasks(
    stage: DemoStage, run: DemoRun, condition: Callable[[list[TaskReport]], bool], *, timeout_s: float, what: str
) -> None:
    """Wait until the newest reports of all tasks fulfil the condition; the error has the newest reports."""
    deadline = time.monotonic() + timeout_s
    while True:
        reports = [status.last for status in stage.server.tasks(run.id)]
        if condition(reports):
            return
        now = stage.server.get_run(run.id)
        if now.end_reason is not None or time.monotonic() > deadline:
            heard = "; ".join(
                f"task {r.ordinal}.{r.task} {r.state}, {len(r.partitions)} partitions, {r.last_error or 'no error'}"
                for r in reports
            )
            raise EmbeddedError(
                f"{timeout_s:.0f} s without {what}: the run is {now.state} ({now.end_reason or 'no end'}); "
                f"{heard or 'no task has reported'}\n{stage.server.process.log_tail()}"
            )
        time.sleep(0.2)
