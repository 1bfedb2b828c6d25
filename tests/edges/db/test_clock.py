"""Servers whose machines disagree about the time agree with their database, and so with each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.edges.db.clock import DatabaseClock
from app.edges.db.database import Database
from app.kit.errors import UnavailableError

TOLD = datetime(2026, 11, 25, 12, tzinfo=UTC)


class Machine:
    """A server's machine: how far its clock is off, and how long Postgres's answers are on their way to it."""

    def __init__(self, *, off: timedelta, took_s: float = 0.0) -> None:
        self.off, self.took_s = off, took_s
        self.passed_s = 0.0
        self.is_away = False
        # Counted from the start of the machine, which is another for each.
        self._booted_s = abs(off.total_seconds()) + 17
        self.clock = DatabaseClock(self._told, monotonic=lambda: self._booted_s + self.passed_s, machine=self)

    def now(self) -> datetime:
        """As its own clock has it."""
        return TOLD + timedelta(seconds=self.passed_s) + self.off

    async def _told(self) -> datetime:
        if self.is_away:
            raise UnavailableError("Postgres is away")
        self.passed_s += self.took_s / 2
        told = TOLD + timedelta(seconds=self.passed_s)
        self.passed_s += self.took_s / 2
        return told


@pytest.mark.parametrize("off_s", [-300.0, 0.0, 300.0])
async def test_two_servers_have_the_same_time_with_different_machine_clocks(off_s: float) -> None:
    one, other = Machine(off=timedelta()), Machine(off=timedelta(seconds=off_s))
    # The control: before they have asked, they tell what their machines do.
    assert other.clock.now() - one.clock.now() == timedelta(seconds=off_s)
    await one.clock.measure()
    await other.clock.measure()
    one.passed_s = other.passed_s = 5.0
    assert one.clock.now() == other.clock.now() == TOLD + timedelta(seconds=5)


async def test_machine_whose_clock_is_set_changes_nothing() -> None:
    machine = Machine(off=timedelta())
    await machine.clock.measure()
    machine.off = timedelta(hours=1)
    assert machine.clock.now() == TOLD


async def test_time_goes_on_while_postgres_is_away() -> None:
    machine = Machine(off=timedelta(seconds=-300))
    await machine.clock.measure()
    machine.is_away = True
    with pytest.raises(UnavailableError):
        await machine.clock.measure()
    machine.passed_s = 60.0
    assert machine.clock.now() == TOLD + timedelta(seconds=60)


async def test_answer_that_was_long_on_its_way_changes_nothing() -> None:
    machine = Machine(off=timedelta(seconds=-300))
    await machine.clock.measure()
    machine.took_s = 20.0
    await machine.clock.measure()
    assert machine.clock.now() == TOLD + timedelta(seconds=20)


async def test_postgres_reports_its_time(database: Database) -> None:
    clock = DatabaseClock(database.now)
    await clock.measure()
    assert abs(clock.now() - await database.now()) < timedelta(seconds=2)
