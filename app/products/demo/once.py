"""`fenceline demo --once`: 100,000 flights, two kills at the worst moments, and a check of the outputs."""

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.core.ids.transaction_counts import count_transactions
from app.edges.embedded.errors import EmbeddedError
from app.edges.kafka.transaction_journal import read_transaction_journal
from app.kit.patience import BUSY_MACHINE_S
from app.products.demo import ending, file_pipeline, pipeline, window_pipeline
from app.products.demo.feed import Feed, laps
from app.products.demo.file_proof import FileProof
from app.products.demo.flights import Flight, read_flights
from app.products.demo.kill import IdTail, KilledWorker, aftermath, kill_inside_a_transaction
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
    wait_for_file_partitions,
    wait_for_partitions,
)
from app.products.demo.window_run import WindowRun

FLIGHTS = 100_000
FEED_S = 17.0
"""The duration of the steady feed; at least 15 s, so that the kill comes while it runs."""
KILL_FROM, KILL_UNTIL = 0.30, 0.60
# A little inside the window, as offsets that are committed during the check count too.
_AIM_FROM = 0.33
_SLOWLY_PER_S = 20.0
"""The further flights after the 100,000, until the killed instance has committed again."""
_LOOK_FOR_COMMIT_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class FilesResult:
    """The second pipeline: the number of files that its references name, and their contents."""

    written: int
    expected: int
    found: int
    lost: int
    duplicated: int


@dataclass(frozen=True, slots=True)
class WindowsResult:
    """The third pipeline: its committed windows, those that the CSV gives, and all lost, duplicated or different ones.

    killed_at_batch: the batch whose commit the checkpoint of the killed driver did not record; None: it was not killed.
    """

    windows: int
    expected: int
    wrong: int
    killed_at_batch: int | None


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The line that the demo ends with.

    files, dataframe: of the second and third pipeline; everything else is of the first.
    killed_at_record: the number of committed flights when the worker was killed; None if it was not.
    records_per_second: of the first 100,000 flights, from the first sent to the last committed, the kill's pause
    included.
    seconds: of the complete demo, from its start.
    """

    records_in: int
    expected: int
    found: int
    lost: int
    duplicated: int
    kills: int
    killed_at_record: int | None
    transactions_committed: int
    transactions_aborted: int
    records_per_second: int
    seconds: float
    files: FilesResult
    dataframe: WindowsResult

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The figures, and the problems: empty when the demo succeeded."""

    result: DemoResult
    complaints: tuple[str, ...]


def play_once(console: Console) -> DemoOutcome:
    """Start everything, run the pipelines over the input with two kills, and judge. Ends all its processes.

    All run before the feed begins: the start of an application would take the cores of the recovering instance.

    Raises:
        EmbeddedError: a service did not start or did not progress in time.
    """
    began = time.monotonic()
    flights = read_flights(limit=FLIGHTS)
    with open_stage(console, cores=CORES) as stage:
        stage.create_topics(TOPICS, partitions=pipeline.PARTITIONS)
        run = start_pipeline(stage)
        create_file_pipeline(stage)
        create_window_pipeline(stage)
        files_run = stage.server.start_run(file_pipeline.NAME)
        windows_run = stage.server.start_run(window_pipeline.NAME)
        wait_for_partitions(stage, run, console)
        wait_for_file_partitions(stage, files_run, console)
        feed = Feed(
            bootstrap_servers=stage.bootstrap_servers, topic=pipeline.SOURCE_TOPIC, partitions=pipeline.PARTITIONS
        )
        proof = SinkProof(
            bootstrap_servers=stage.bootstrap_servers,
            group=pipeline.NAME,
            feed=feed,
            sink_topic=pipeline.SINK_TOPIC,
            outputs=LateFlights(),
        )
        files = FileProof.of(stage, feed)
        windows = WindowRun.start(stage, windows_run, feed)
        feeding = _Feeding(feed, flights)
        first_fed = time.monotonic()
        feeding.start()
        windows.begin_to_kill()
        try:
            kill, killed_at, last_committed = _process(stage, run, proof, console, feeding)
            ending.wait_until_read(
                feed.sent,
                count_read=files.count_read,
                get_run=lambda: stage.server.get_run(files_run.id),
                within_s=BUSY_MACHINE_S,
            )
            windows.end_killing()
            ending.wait_until_read(
                feed.sent,
                count_read=windows.count_read,
                get_run=lambda: stage.server.get_run(windows_run.id),
                within_s=BUSY_MACHINE_S,
            )
        finally:
            feeding.stop()
        files_before = stage.server.get_run(files_run.id)
        _, files_after, _ = stage.server.end_runs(
            [run.id, files_run.id, windows_run.id], "drain", timeout_s=BUSY_MACHINE_S
        )
        verdict, files_verdict = proof.look(), files.proof.look()
        proof.close()
        files.proof.close()
        windows.close()
        journal = list(
            read_transaction_journal({"bootstrap.servers": stage.bootstrap_servers}, prefixes=(pipeline.ID_PREFIX,))
        )
        counts = count_transactions(journal, prefixes=(pipeline.ID_PREFIX,))
        sent = [one for number in range(feed.partitions) for one in feed.flights_in(number)]
        fed = [flight for _, flight in sent]
        complaints = _complaints(
            verdict, fed=len(fed), flights_late=sum(flight.is_late for flight in fed), killed_at=killed_at
        )
        complaints += [
            f"{file_pipeline.NAME}: {found}"
            for found in ending.complaints(files_verdict, before=files_before, after=files_after)
        ]
        by_window = windows.verdict(sent)
        complaints += windows.complaints(by_window)
        if kill is not None:
            after = aftermath(journal, kill)
            if not after.was_aborted:
                complaints.append("the killed worker's transaction was not aborted: it had none open")
            if not after.committed_again:
                complaints.append(f"instance {kill.ordinal}, whose worker was killed, never committed again")
        for sentence in (verdict.sentence(), files.sentence(files_verdict), by_window.sentence()):
            console.print(sentence, highlight=False, soft_wrap=True)
        console.print(
            f"{counts.committed:,} transactions committed, {counts.aborted:,} aborted, {counts.fencings:,} fenced",
            highlight=False,
            soft_wrap=True,
        )
    took_s = last_committed - first_fed
    result = DemoResult(
        records_in=verdict.records_in,
        expected=verdict.expected,
        found=verdict.found,
        lost=verdict.lost,
        duplicated=verdict.duplicated,
        kills=0 if kill is None else 1,
        killed_at_record=killed_at,
        transactions_committed=counts.committed,
        transactions_aborted=counts.aborted,
        records_per_second=round(FLIGHTS / took_s),
        seconds=round(time.monotonic() - began, 1),
        files=FilesResult(
            written=files.outputs.files,
            expected=files_verdict.expected,
            found=files_verdict.found,
            lost=files_verdict.lost,
            duplicated=files_verdict.duplicated,
        ),
        dataframe=WindowsResult(
            windows=by_window.windows,
            expected=by_window.expected,
            wrong=by_window.all_wrong,
            killed_at_batch=None if windows.kill is None else windows.kill.batch,
        ),
    )
    return DemoOutcome(result, tuple(complaints))


def _process(
    stage: DemoStage, run: DemoRun, proof: SinkProof, console: Console, feeding: "_Feeding"
) -> tuple[KilledWorker | None, int | None, float]:
    """Watch the group's offsets to the end of the input and kill one worker on the way.

    The feed continues, slowly, until the killed instance has committed again or the time is over.
    Returns the kill, the flight at which it came, and when flight 100,000 was committed (on the monotonic clock).
    """
    ids = [
        status.last.transactional_id
        for status in stage.server.tasks(run.id)
        if status.last.transactional_id is not None
    ]
    journal = IdTail(bootstrap_servers=stage.bootstrap_servers, transactional_ids=ids)
    kill: KilledWorker | None = None
    killed_at: int | None = None
    began = time.monotonic()
    deadline = began + FEED_S + BUSY_MACHINE_S
    last_committed: float | None = None
    with progress_bar(console) as progress:
        bar = progress.add_task("processing", total=FLIGHTS)
        while True:
            done = sum(proof.committed())
            progress.update(bar, completed=min(done, FLIGHTS))
            feeding.refuse_failed()
            is_late = time.monotonic() > deadline
            if done >= FLIGHTS:
                last_committed = last_committed or time.monotonic()
                if kill is None or is_late or journal.has_committed_since(kill):
                    break
                feeding.go_on()
                time.sleep(_LOOK_FOR_COMMIT_EVERY_S)
                continue
            if is_late:
                raise EmbeddedError(
                    f"only {done:,} of {FLIGHTS:,} flights were processed in time\n{stage.server.process.log_tail()}"
                )
            share = done / FLIGHTS
            if kill is None and _AIM_FROM <= share < KILL_UNTIL:
                reports = [status.last for status in stage.server.tasks(run.id)]
                have_committed = [report for report in reports if report.counters.transactions_committed > 0]
                if {report.ordinal for report in have_committed} == set(range(pipeline.INSTANCES)):
                    kill = kill_inside_a_transaction(journal, have_committed)
                    if kill is not None:
                        killed_at = sum(proof.committed())
                        progress.console.print(
                            f"Killed the worker of instance {kill.ordinal} (process {kill.pid}) at flight "
                            f"{killed_at:,}, in an open transaction of {kill.transactional_id}",
                            highlight=False,
                            soft_wrap=True,
                        )
            time.sleep(0.05)
    journal.close()
    feeding.stop()
    while (done := sum(proof.committed())) < feeding.sent and time.monotonic() < deadline + BUSY_MACHINE_S:
        time.sleep(0.05)
    return kill, killed_at, last_committed


class _Feeding:
    """Feeds the flights at a steady rate, and more of them slowly on request, until it is stopped."""

    def __init__(self, feed: Feed, flights: Sequence[Flight]) -> None:
        self._feed = feed
        self._flights = flights
        self._stop = threading.Event()
        self._is_more_wanted = threading.Event()
        self._failures: list[Exception] = []
        self._thread = threading.Thread(target=self._send, name="feed", daemon=True)

    @property
    def sent(self) -> int:
        return self._feed.sent

    def start(self) -> None:
        self._thread.start()

    def go_on(self) -> None:
        """Feed more, slowly."""
        self._is_more_wanted.set()

    def stop(self) -> None:
        """Stop, and wait for all acknowledgements."""
        self._stop.set()
        self._is_more_wanted.set()
        self._thread.join(90)
        self.refuse_failed()

    def refuse_failed(self) -> None:
        """Raise the broker's error, if it rejected flights."""
        if self._failures:
            raise self._failures[0]

    def _send(self) -> None:
        through = laps(self._flights)
        steadily = itertools.islice(through, len(self._flights))
        try:
            self._feed.send_steadily(steadily, rate_per_s=len(self._flights) / FEED_S, stop=self._stop)
            self._is_more_wanted.wait()
            self._feed.send_steadily(through, rate_per_s=_SLOWLY_PER_S, stop=self._stop)
        except EmbeddedError as error:
            self._failures.append(error)


def _complaints(verdict: SinkVerdict, *, fed: int, flights_late: int, killed_at: int | None) -> list[str]:
    complaints: list[str] = []
    if not verdict.is_exactly_once:
        complaints.append(f"not exactly once: {verdict.sentence()}")
    if verdict.records_in != fed or verdict.found != flights_late:
        complaints.append(
            f"{verdict.records_in:,} of {fed:,} flights were read, and {verdict.found:,} of {flights_late:,} "
            "late ones found"
        )
    if killed_at is None:
        complaints.append("no worker was killed: none had an open transaction in the window, or they started too late")
    elif not KILL_FROM * FLIGHTS <= killed_at <= KILL_UNTIL * FLIGHTS:
        complaints.append(f"the kill came at flight {killed_at:,}, outside 30 % to 60 % of the input")
    return complaints


def progress_bar(console: Console) -> Progress:
    """A bar on a terminal; elsewhere only the lines that are printed beside it."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
