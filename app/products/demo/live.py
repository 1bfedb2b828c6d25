"""`fenceline demo`: a dashboard, a steady feed of flights, and repeated checks until Ctrl-C."""

import threading
import time
from collections.abc import Callable

from rich.console import Console

from app.core.runs.run import RunState
from app.edges.embedded.errors import EmbeddedError
from app.kit.patience import BUSY_MACHINE_S
from app.products.demo import file_pipeline, pipeline, window_pipeline
from app.products.demo.ending import complaints, is_at_work, refuse_failed, wait_until_read
from app.products.demo.feed import Feed, laps
from app.products.demo.file_proof import FileProof
from app.products.demo.flights import read_flights
from app.products.demo.once import progress_bar
from app.products.demo.outputs import LateFlights
from app.products.demo.proof import SinkProof, SinkVerdict
from app.products.demo.server import DemoRun
from app.products.demo.stage import DemoStage, open_stage
from app.products.demo.starting import (
    CORES,
    TOPICS,
    create_file_pipeline,
    create_window_pipeline,
    start_pipeline,
    wait_for_partitions,
)
from app.products.demo.window_proof import judge, read_windows

FULL_SPEED_FLIGHTS = 250_000
STEADY_PER_S = 400.0
PROOF_EVERY_S = 60.0
_READ_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.25


def play_live(console: Console) -> None:
    """Start everything, print the dashboard's address, and run until Ctrl-C; then drain and check a last time.

    The second pipeline is started by the user: three applications that start at once on two cores would slow the first
    minute. From its start on it is checked like the first one.

    Raises:
        EmbeddedError: a service did not start, a run failed, not all of the input was read, or the last check failed.
    """
    with console.status("Reading the flights"):
        flights = read_flights()
    console.print(f"{len(flights):,} flights of 2013", highlight=False, soft_wrap=True)
    with open_stage(console, cores=CORES) as stage:
        stage.create_topics(TOPICS, partitions=pipeline.PARTITIONS)
        run = start_pipeline(stage)
        create_file_pipeline(stage)
        create_window_pipeline(stage)
        _say_address(console, stage)
        feed = Feed(
            bootstrap_servers=stage.bootstrap_servers, topic=pipeline.SOURCE_TOPIC, partitions=pipeline.PARTITIONS
        )
        with progress_bar(console) as progress:
            bar = progress.add_task("loading", total=FULL_SPEED_FLIGHTS)
            feed.send_all(
                ((1, flight) for flight in flights[:FULL_SPEED_FLIGHTS]),
                on_progress=lambda count: progress.update(bar, completed=count),
            )
        wait_for_partitions(stage, run, console)
        proof = SinkProof(
            bootstrap_servers=stage.bootstrap_servers,
            group=pipeline.NAME,
            feed=feed,
            sink_topic=pipeline.SINK_TOPIC,
            outputs=LateFlights(),
        )
        files = FileProof.of(stage, feed)
        stop = threading.Event()
        feeding = threading.Thread(
            target=feed.send_steadily,
            args=(laps(flights, start=FULL_SPEED_FLIGHTS),),
            kwargs={"rate_per_s": STEADY_PER_S, "stop": stop},
            name="feed",
            daemon=True,
        )
        try:
            _catch_up(console, stage, run, proof)
            _prove(console, "After the full-speed part", proof)
            feeding.start()
            console.print(
                f"Flights now come at {STEADY_PER_S:.0f} a second. Ctrl-C drains the pipeline and ends everything."
            )
            _invite(console, stage)
            stay(
                get_run=lambda: stage.server.get_run(run.id),
                prove=lambda: _prove_all(console, stage, proof, files),
                feeding=feeding,
            )
        except KeyboardInterrupt:
            console.print("Reading the rest of the input, then draining…")
        finally:
            stop.set()
            if feeding.is_alive():
                feeding.join(30)
        found = _end(console, stage, run, feed, proof, files)
    if found:
        raise EmbeddedError("; ".join(found))


def _end(console: Console, stage: DemoStage, run: DemoRun, feed: Feed, proof: SinkProof, files: FileProof) -> list[str]:
    """Wait until all is read, drain the runs, and check a last time. Returns the problems."""
    files_run = stage.server.latest_run(file_pipeline.NAME)
    _wait_until_read(stage, run, feed, lambda: sum(proof.committed()))
    if files_run is not None and is_at_work(files_run):
        _wait_until_read(stage, files_run, feed, files.count_read)
    windows_run = stage.server.latest_run(window_pipeline.NAME)
    runs = [one.id for one in (run, files_run, windows_run) if one is not None]
    before = {name: stage.server.get_run(name) for name in runs}
    after = dict(zip(runs, stage.server.end_runs(runs, "drain", timeout_s=BUSY_MACHINE_S), strict=True))
    verdict = _prove(console, "After the drain", proof)
    console.print(f"{verdict.fed:,} fed, {verdict.records_in:,} read", highlight=False, soft_wrap=True)
    found = [*complaints(verdict, before=before[run.id], after=after[run.id])]
    if files_run is not None:
        in_files = _prove_files(console, "After the drain", files)
        found += [
            f"{file_pipeline.NAME}: {one}"
            for one in complaints(in_files, before=before[files_run.id], after=after[files_run.id], may_end_early=True)
        ]
    if windows_run is not None:
        found += _prove_windows(console, stage, feed)
    proof.close()
    files.proof.close()
    return found


def _wait_until_read(stage: DemoStage, run: DemoRun, feed: Feed, count_read: Callable[[], int]) -> None:
    wait_until_read(
        feed.sent, count_read=count_read, get_run=lambda: stage.server.get_run(run.id), within_s=_READ_WITHIN_S
    )


def _say_address(console: Console, stage: DemoStage) -> None:
    console.print()
    console.print("[bold]The dashboard[/]; the link logs you in once:", highlight=False, soft_wrap=True)
    # Not wrapped, as a wrapped link does not work.
    console.print(f"  {stage.server.login_url or stage.server.users_url}", soft_wrap=True, highlight=False)
    console.print()


def _invite(console: Console, stage: DemoStage) -> None:
    """Suggest a drill as the first thing to try."""
    console.print()
    console.print("[bold]Try it:[/] freeze or kill an instance, or freeze the server, and watch the recovery:")
    console.print(f"  {stage.server.users_url}/pipelines/{pipeline.NAME}/drills", soft_wrap=True, highlight=False)
    console.print("At the end an audit on Spark counts lost and duplicated records.", soft_wrap=True)
    console.print("[bold]Files:[/] start the second pipeline, which writes every flight to Avro files:")
    console.print(f"  {stage.server.users_url}/pipelines/{file_pipeline.NAME}", soft_wrap=True, highlight=False)
    console.print(f"They are in {stage.files_root} until the demo ends. To read the referenced files:", soft_wrap=True)
    console.print(
        f"  .venv/bin/fenceline files read {file_pipeline.NAME} --bootstrap-server {stage.bootstrap_servers} "
        f"--topic {file_pipeline.SINK_TOPIC}",
        soft_wrap=True,
        highlight=False,
    )
    console.print("[bold]Spark SQL:[/] start the third pipeline, which writes mean delays by carrier and hour:")
    console.print(f"  {stage.server.users_url}/pipelines/{window_pipeline.NAME}", soft_wrap=True, highlight=False)
    console.print()


def _catch_up(console: Console, stage: DemoStage, run: DemoRun, proof: SinkProof) -> None:
    """Wait until the full-speed part is processed, and print its rate."""
    started = time.monotonic()
    with progress_bar(console) as progress:
        bar = progress.add_task("processing", total=FULL_SPEED_FLIGHTS)
        while (done := sum(proof.committed())) < FULL_SPEED_FLIGHTS:
            progress.update(bar, completed=done)
            _refuse_ended(stage, run)
            if time.monotonic() - started > BUSY_MACHINE_S:
                raise EmbeddedError(
                    f"only {done:,} of {FULL_SPEED_FLIGHTS:,} flights were processed in {BUSY_MACHINE_S:.0f} s"
                )
            time.sleep(_LOOK_EVERY_S)


def stay(
    *,
    get_run: Callable[[], DemoRun],
    prove: Callable[[], object],
    feeding: threading.Thread,
    prove_every_s: float = PROOF_EVERY_S,
) -> None:
    """Check each minute until an interrupt; a run that a user stopped on the dashboard stays stopped.

    Raises:
        EmbeddedError: the run has failed, or the feed has ended.
    """
    proven_at = time.monotonic()
    while True:
        time.sleep(_LOOK_EVERY_S)
        refuse_failed(get_run())
        if not feeding.is_alive():
            raise EmbeddedError("the feed has ended: the broker accepted no more flights")
        if time.monotonic() - proven_at >= prove_every_s:
            prove()
            proven_at = time.monotonic()


def _refuse_ended(stage: DemoStage, run: DemoRun) -> None:
    now = stage.server.get_run(run.id)
    if now.state in (RunState.FAILED, RunState.STOPPED):
        raise EmbeddedError(f"the run has {now.state}: {now.end_reason or 'no reason was reported'}")


def _prove_all(console: Console, stage: DemoStage, proof: SinkProof, files: FileProof) -> None:
    when = time.strftime("%H:%M:%S")
    _prove(console, when, proof)
    if stage.server.latest_run(file_pipeline.NAME) is not None:
        _prove_files(console, when, files)


def _prove(console: Console, when: str, proof: SinkProof) -> SinkVerdict:
    verdict = proof.look()
    _say(console, when, verdict.sentence(), is_good=verdict.is_exactly_once)
    return verdict


def _prove_files(console: Console, when: str, files: FileProof) -> SinkVerdict:
    verdict = files.proof.look()
    _say(console, when, files.sentence(verdict), is_good=verdict.is_exactly_once)
    return verdict


def _prove_windows(console: Console, stage: DemoStage, feed: Feed) -> list[str]:
    """Compare the closed windows with the CSV; a window that is still open is in no batch yet."""
    read = read_windows(stage.bootstrap_servers)
    verdict = judge(read.seen, read.wrong, (one for at in range(feed.partitions) for one in feed.flights_in(at)))
    _say(console, "After the drain", verdict.sentence(), is_good=not verdict.all_wrong)
    return [f"{window_pipeline.NAME}: windows differ from the CSV: {verdict.sentence()}"] if verdict.all_wrong else []


def _say(console: Console, when: str, sentence: str, *, is_good: bool) -> None:
    mark = "[green]✔[/]" if is_good else "[bold red]✘[/]"
    console.print(f"{mark} {when}: {sentence}", highlight=False, soft_wrap=True)
