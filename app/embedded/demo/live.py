"""`fenceline demo`: a dashboard to watch, flights that keep coming, and the proof again and again until Ctrl-C."""

import threading
import time
from collections.abc import Callable

from rich.console import Console

from app.domain.runs.run import RunState
from app.embedded.demo import pipeline
from app.embedded.demo.ending import complaints, refuse_failed, wait_until_read
from app.embedded.demo.feed import Feed, laps
from app.embedded.demo.flights import read_flights
from app.embedded.demo.once import progress_bar, start_pipeline, wait_for_partitions
from app.embedded.demo.proof import Proof, Verdict
from app.embedded.demo.server import Run
from app.embedded.demo.stage import Stage, open_stage
from app.embedded.errors import EmbeddedError

FULL_SPEED_FLIGHTS = 250_000
STEADY_PER_S = 400.0
PROOF_EVERY_S = 60.0
_FULL_SPEED_WITHIN_S = 300.0
_READ_WITHIN_S = 30.0
_DRAINED_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.25


def play_live(console: Console) -> None:
    """Start everything, print the dashboard's address, and stay until Ctrl-C; then drain and prove it a last time.

    Raises:
        EmbeddedError: something did not come up, the run failed, not all that was fed was read, or the last proof did
            not hold.
    """
    with console.status("Reading the flights"):
        flights = read_flights()
    console.print(f"{len(flights):,} flights of 2013", highlight=False, soft_wrap=True)
    with open_stage(console, cores=pipeline.CORES) as stage:
        stage.create_topics((pipeline.SOURCE_TOPIC, pipeline.SINK_TOPIC), partitions=pipeline.PARTITIONS)
        run = start_pipeline(stage)
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
        proof = Proof(
            bootstrap_servers=stage.bootstrap_servers,
            group=pipeline.NAME,
            feed=feed,
            sink_topic=pipeline.SINK_TOPIC,
        )
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
                prove=lambda: _prove(console, time.strftime("%H:%M:%S"), proof),
                feeding=feeding,
            )
        except KeyboardInterrupt:
            console.print("Reading what was fed, then draining…")
        finally:
            stop.set()
            if feeding.is_alive():
                feeding.join(30)
        wait_until_read(
            feed.sent,
            count_read=lambda: sum(proof.committed()),
            get_run=lambda: stage.server.get_run(run.id),
            within_s=_READ_WITHIN_S,
        )
        before = stage.server.get_run(run.id)
        after = stage.server.end_run(run.id, "drain", timeout_s=_DRAINED_WITHIN_S)
        verdict = _prove(console, "After the drain", proof)
        proof.close()
        console.print(f"{verdict.fed:,} fed, {verdict.records_in:,} read", highlight=False, soft_wrap=True)
    found = complaints(verdict, before=before, after=after)
    if found:
        raise EmbeddedError("; ".join(found))


def _say_address(console: Console, stage: Stage) -> None:
    console.print()
    console.print("[bold]The dashboard[/], logged in once by this link:", highlight=False, soft_wrap=True)
    # Not wrapped: a broken line is a broken link.
    console.print(f"  {stage.server.login_url or stage.server.users_url}", soft_wrap=True, highlight=False)
    console.print()


def _invite(console: Console, stage: Stage) -> None:
    """The first thing to do here: break it, and see that nothing is lost."""
    console.print()
    console.print("[bold]Try it:[/] freeze or kill an instance, or take the server away, and watch it being survived:")
    console.print(f"  {stage.server.users_url}/pipelines/{pipeline.NAME}/drills", soft_wrap=True, highlight=False)
    console.print("In the end an audit on Spark counts what was lost or doubled meanwhile.", soft_wrap=True)
    console.print()


def _catch_up(console: Console, stage: Stage, run: Run, proof: Proof) -> None:
    """Wait until the full-speed part is processed, and say how fast that was."""
    started = time.monotonic()
    with progress_bar(console) as progress:
        bar = progress.add_task("processing", total=FULL_SPEED_FLIGHTS)
        while (done := sum(proof.committed())) < FULL_SPEED_FLIGHTS:
            progress.update(bar, completed=done)
            _refuse_ended(stage, run)
            if time.monotonic() - started > _FULL_SPEED_WITHIN_S:
                raise EmbeddedError(
                    f"only {done:,} of {FULL_SPEED_FLIGHTS:,} flights were processed in {_FULL_SPEED_WITHIN_S:.0f} s"
                )
            time.sleep(_LOOK_EVERY_S)


def stay(
    *,
    get_run: Callable[[], Run],
    prove: Callable[[], object],
    feeding: threading.Thread,
    prove_every_s: float = PROOF_EVERY_S,
) -> None:
    """Prove it each minute until somebody interrupts; a run that is stopped on the dashboard is left stopped.

    Raises:
        EmbeddedError: the run has failed, or the feed has ended.
    """
    proven_at = time.monotonic()
    while True:
        time.sleep(_LOOK_EVERY_S)
        refuse_failed(get_run())
        if not feeding.is_alive():
            raise EmbeddedError("the feed has ended: the broker took no more flights")
        if time.monotonic() - proven_at >= prove_every_s:
            prove()
            proven_at = time.monotonic()


def _refuse_ended(stage: Stage, run: Run) -> None:
    now = stage.server.get_run(run.id)
    if now.state in (RunState.FAILED, RunState.STOPPED):
        raise EmbeddedError(f"the run has {now.state}: {now.end_reason or 'no reason was given'}")


def _prove(console: Console, when: str, proof: Proof) -> Verdict:
    verdict = proof.look()
    mark = "[green]✔[/]" if verdict.is_exactly_once else "[bold red]✘[/]"
    console.print(f"{mark} {when}: {verdict.sentence()}", highlight=False, soft_wrap=True)
    return verdict
