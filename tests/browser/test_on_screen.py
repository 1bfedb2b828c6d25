"""Changes are on the screen within a second, measured in a real browser from the server's own time of the event."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.core.runs.task import TaskState
from app.products.demo.server import DemoRun
from tests.conftest import MakeTopic
from tests.support.browser import Site
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow

PROMISED_MS = 1_000
ROUNDS = 4
# A machine that does seven other things may once or twice be late without the server having waited for anything.
LATE_AT_MOST = 2
# The browser and the server share a clock. A row may come and go: what is kept is when each text was first there.
REMEMBER = """
() => {
  window.firstSeen = {};
  const look = () => {
    const now = Date.now();
    const state = document.querySelector("#task-0-0 td[data-label=State]")?.textContent.trim();
    const texts = [...document.querySelectorAll("#commands tbody tr")].map((row) => row.id);
    if (state && state !== window.stateNow) {
      window.stateNow = state;
      window.turned = now;
    }
    for (const text of texts) window.firstSeen[text] ??= now;
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
}
"""


@pytest.fixture
def pipeline() -> str:
    return unique_name("prompt")


@pytest.fixture
def run(site: Site, pipeline: str, make_topic: MakeTopic) -> Generator[DemoRun]:
    """It runs on Spark, and has nothing to read."""
    site.server.create_pipeline(
        pipeline,
        {
            "cluster": site.cluster,
            "source_topics": [make_topic()],
            "group_id": pipeline,
            "sink_topic": make_topic(),
            "transform": {"kind": "identity"},
            "spark": {"master": "local"},
        },
    )
    started = site.server.start_run(pipeline)
    yield started
    site.server.end_run(started.id, "kill", timeout_s=60)


def test_a_command_and_what_a_worker_reports_are_on_the_screen_within_a_second(
    site: Site, page: Page, pipeline: str, run: DemoRun
) -> None:
    page.goto(f"/pipelines/{pipeline}")
    state = page.locator("#task-0-0 td[data-label=State]")
    expect(state).to_have_text("running", timeout=120_000)
    log = page.context.new_page()
    log.goto(f"/pipelines/{pipeline}/definition")
    for window in (page, log):
        expect(window.locator("html")).to_have_attribute("data-stream", "up")
        window.evaluate(REMEMBER)

    took_ms: dict[str, float] = {}
    for number in range(ROUNDS):
        for how, becomes in (("pause", TaskState.PAUSED), ("resume", TaskState.RUNNING)):
            answer = page.request.post(f"/api/v1/runs/{run.id}/{how}", data={}, headers={"Origin": site.url})
            assert answer.ok, answer.text()
            expect(state).to_have_text(becomes, timeout=20_000)
            reported = _state_since(site, run, becomes)
            took_ms[f"{becomes} as the task says, {number}"] = page.evaluate("window.turned") - _ms(reported)
            command = _newest_command(page, pipeline)
            row = f"command-{command['id']}"
            log.wait_for_selector(f"#{row}", state="attached")
            seen_ms: float = log.evaluate("(row) => window.firstSeen[row]", row)
            took_ms[f"{how} in the command log, {number}"] = seen_ms - _ms(datetime.fromisoformat(command["at"]))

    told = "\n".join(f"{milliseconds:6.0f} ms  {what}" for what, milliseconds in took_ms.items())
    ordered = sorted(took_ms.values())
    told = f"on screen after {ordered[len(ordered) // 2]:.0f} ms (median), {ordered[-1]:.0f} ms (worst):\n{told}"
    print(f"\n{told}")  # noqa: T201 - the figures are what this test is for
    assert min(ordered) >= 0, f"seen before it happened: the clocks differ, or it is another change\n{told}"
    late = [milliseconds for milliseconds in ordered if milliseconds > PROMISED_MS]
    assert len(late) <= LATE_AT_MOST, f"{len(late)} of {len(ordered)} were late:\n{told}"


def _state_since(site: Site, run: DemoRun, state: TaskState) -> datetime:
    """The time at which the server received the state on the screen."""
    [task] = site.server.tasks(run.id)
    assert task.last.state is state
    return task.state_since


def _newest_command(page: Page, pipeline: str) -> Any:
    answer = page.request.get(f"/api/v1/commands?target=pipeline:{pipeline}&limit=1")
    return answer.json()["items"][0]


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000
