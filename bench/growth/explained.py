"""What people say about the figures of docs/growth.md; no figure that was measured stands here."""

from __future__ import annotations

EXPLAINED = {
    "pipelines": (
        "Each pipeline has two tasks and a driver that report, and twice a second the reconciler reads its run and "
        "looks at its driver's process: all of it is done for each pipeline by itself, so no less than a straight line "
        "is to be expected, and no more. Nobody has a page open."
    ),
    "tasks": (
        "All twenty instances have a driver that reports from the beginning, so what is added is tasks. A heartbeat is "
        "three transactions at most (whose token it is, what it says, what it tells of offsets) with the same "
        "statements however many others there are, so a straight line is to be expected here too. One sample a second "
        "is the run's, not the task's."
    ),
    "ids": (
        "The same two hundred transactions a second go round among the ids at each size, while ten tasks report and a "
        "browser has the list of all ids open, so what is added is what an id costs by being there. Its first size is "
        "the base. Memory should grow by the same for each id, and the processor's part by less. Every minute the "
        "server saves what it has read of the journals, which may fall into the time of a size or beside it."
    ),
}
FOUND = """- Retention did not come to an end where a run had two weeks of samples: with the statistics that
  autovacuum leaves, Postgres compared each old sample with each other one of its run, ran into the bound of the
  statement, and the turn removed nothing from any table. Samples are numbered in one pass now
  (`test_samples_of_two_weeks_are_looked_through_in_time`).
- Every tenth heartbeat of a task took the run's lock on mappings to write what was written already, so that tasks of
  one run waited for each other all the time. It looks first now, without the lock
  (`test_who_holds_what_it_names_waits_for_no_other_task_of_its_run`).
- What remains: where the ownership of many tasks of *one* run changes at once (a start, a rebalance), they take turns,
  each until its transaction is on the disk. While they wait they hold connections of the server's pool, which other
  heartbeats need, so some of those are answered 503. Workers go on without an answer and say it again a second later;
  *all heard after* says how long that lasts.
- What remains: a server that gets too little of the processor does not slow down evenly. A heartbeat that was not
  answered in time has cost what an answered one costs, and is sent again. So where some are refused, look at the load
  of the machine first: the others' share is not among the cores of the table.
"""
