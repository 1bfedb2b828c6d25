"""Steps on the form of a pipeline, as a browser posts it."""

from __future__ import annotations

import re

from app.core.wiring import Wiring
from app.kit.access import Role
from tests.support.wiring import browser_of

STEPS = {
    "transform.kind": "steps",
    "transform.steps.0.op": "project",
    "transform.steps.1.op": "condition",
    "transform.steps.2.op": "set",
}


async def test_form_says_which_steps_run_in_python(wiring: Wiring) -> None:
    async with browser_of(wiring, Role.ADMINISTRATOR) as browser:
        form = (await browser.post("/new-pipeline", data=STEPS)).text
    steps = re.split(r'<li class="step" id="step-\d">', form)[1:]
    assert ["Runs in Python, slower" in step for step in steps] == [False, True, True]
    assert "put filters before it" in steps[1]
    assert "since it is behind a condition" in steps[2]
