"""The course: forward, then back; each bounce meets its faults, without help from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import httpx

from app.core.runs.mode import Mode
from app.products.migrations.migration import Stage
from app.products.migrations.plan import stages_to
from tests.fault_suite.fault_log import FaultLog
from tests.fault_suite.migration.drawn import BOUNCES, Meant
from tests.fault_suite.migration.proven import gates_of, unproven
from tests.fault_suite.migration.result import Met, Way
from tests.fault_suite.plan import NotDoneError
from tests.fault_suite.run import Do
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

Json = dict[str, Any]
Say = Callable[[str], None]

_READY_S = 180.0
_STEP_S = 900.0
_DONE_S = 1800.0
_TRIES = 4


class Migrating:
    """The migration of one pipeline, over REST. ways: gets those that have come to their end."""

    def __init__(
        self,
        server: ServerProcess,
        pipeline: str,
        meant: Sequence[Meant],
        log: FaultLog,
        say: Say,
        ways: list[Way],
    ) -> None:
        self._server = server
        self._pipeline = pipeline
        self._meant = meant
        self._log = log
        self._say = say
        self._last = ""
        self._ways = ways

    def course(self, do: Do) -> None:
        """Raises AssertionError where a migration stops, or does not go on."""
        for goal in BOUNCES:
            self._wait_until_it_may_begin(goal)
            began = time.monotonic()
            body = {"goal": goal, "why": "a run of faults"}
            one = str(self._server.post(f"/pipelines/{self._pipeline}/migrations", body)["id"])
            met = [self._meet(one, meant, do, began) for meant in self._meant if meant.stage in BOUNCES[goal]]
            self._until(one, lambda seen: seen["state"] == "done", _DONE_S, "its end")
            self._ways.append(self._told(one, goal, met))

    def _wait_until_it_may_begin(self, goal: Mode) -> None:
        """As a user who reads the plan first."""

        def missing() -> list[str]:
            try:
                plan = self._server.get(f"/pipelines/{self._pipeline}/migrations/plan?goal={goal}")
            except (httpx.HTTPError, AssertionError) as error:
                return [str(error)]
            return [f"{one['name']}: {one['seen']}" for one in plan["preflight"] if one["standing"] != "open"]

        wait_for(lambda: not missing(), _READY_S, lambda: f"an open preflight: {missing()}")

    def _meet(self, one: str, meant: Meant, do: Do, began: float) -> Met:
        """Raises AssertionError where the stage was over before the fault was done."""

        def is_begun(seen: Json) -> bool:
            return len(_bounces(seen, meant.stage)) > meant.bounce

        self._until(one, is_begun, _STEP_S, f"bounce {meant.bounce + 1} of {meant.stage}")
        for number in range(_TRIES):
            threading.Event().wait(meant.fault.gap_s if number == 0 else 1.0)
            now = self._until(one, lambda _: True, _STEP_S, "an answer")
            assert now["stage"] == meant.stage, f"{meant.stage} was over before {meant.fault.kind} could be done"
            step = _bounces(now, meant.stage)[-1]
            at_s = time.monotonic() - began
            words = f"bounce of instance {step['ordinal']} to {step['to']}"
            self._say(f"{at_s:.0f} s: {meant.fault.kind}, in {meant.stage}, {words}, which is {step['state']}")
            try:
                do(meant.fault)
            except NotDoneError as error:
                self._say(f"not done: {error}")
                continue
            (*_, line) = [line for line in self._log.read() if line.fault.number == meant.fault.number and line.done]
            return Met(
                stage=meant.stage,
                kind=meant.fault.kind,
                step=words,
                was_underway=step["state"] == "underway",
                at_s=round(at_s, 1),
                whom=line.done or (),
            )
        raise AssertionError(f"{meant.fault.kind} could not be done in {meant.stage}")

    def _until(self, one: str, is_so: Callable[[Json], bool], deadline_s: float, what: str) -> Json:
        seen: Json = {}

        def there() -> bool:
            try:
                seen.update(self._server.get(f"/migrations/{one}"))
            except (httpx.HTTPError, AssertionError):
                # A server that has just been started again may not answer yet.
                return False
            self._tell(seen)
            return seen["state"] in ("stopped", "aborted") or is_so(seen)

        wait_for(there, deadline_s, lambda: f"{what}; it is {_words(seen)}, and waits for {self._gate(one)}")
        assert seen["state"] not in ("stopped", "aborted"), (
            f"{what}: the migration is {seen['state']} in {seen['stage']}: {seen['missing']}; "
            f"alarms: {self._alarms(one)}; gate: {self._gate(one)}"
        )
        return seen

    def _tell(self, seen: Json) -> None:
        now = _words(seen)
        if now != self._last:
            self._last = now
            self._say(now)

    def _gate(self, one: str) -> list[str]:
        try:
            clauses = self._server.get(f"/migrations/{one}/gate")["clauses"]
        except (httpx.HTTPError, AssertionError) as error:
            return [str(error)]
        return [f"{clause['name']}: {clause['seen']}" for clause in clauses if clause["standing"] != "open"]

    def _alarms(self, one: str) -> list[str]:
        return [alarm["sentence"] for alarm in self._server.get(f"/migrations/{one}/alarms")["items"]]

    def _told(self, one: str, goal: Mode, met: Sequence[Met]) -> Way:
        evidence = self._server.get(f"/migrations/{one}/evidence")["items"]
        seen = self._server.get(f"/migrations/{one}")
        gates = gates_of(evidence)
        ends = [datetime.fromisoformat(gate["at"]) for gate in gates]
        begins = [datetime.fromisoformat(seen["started_at"]), *ends[:-1]]
        audited = [clause["seen"] for clause in gates[-1]["clauses"] if clause["name"] == "audited"]
        return Way(
            goal=goal,
            seconds={
                Stage(gate["stage"]): round((end - begin).total_seconds(), 1)
                for gate, begin, end in zip(gates, begins, ends, strict=True)
            },
            steps=len(seen["steps"]),
            gates=len(gates),
            clauses=sum(len(gate["clauses"]) for gate in gates),
            proofs=sum(len(gate["proofs"]) for gate in gates),
            unproven=tuple(unproven(evidence, gates=len(stages_to(goal)))),
            alarms=tuple(self._alarms(one)),
            audited="; ".join(audited),
            met=tuple(met),
        )


def _bounces(seen: Json, stage: Stage) -> list[Json]:
    return [step for step in seen["steps"] if step["stage"] == stage and step["kind"] == "bounce"]


def _words(seen: Json) -> str:
    if not seen:
        return "no heartbeat"
    steps = [f"step {one['number']} {one['kind']} {one['ordinal']} {one['state']}" for one in seen["steps"][-1:]]
    return ", ".join([f"{seen['goal']}: {seen['stage']}", seen["state"], *steps])
