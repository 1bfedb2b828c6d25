"""The written explanations of the figures of docs/measured/growth.md; measured figures are not in here."""

from __future__ import annotations

EXPLAINED = {
    "pipelines": (
        "Each pipeline has two tasks and a driver that report, and the reconciler reads its run and checks its "
        "driver's process twice a second. Each pipeline adds the same work, so linear growth is expected. No page is "
        "open."
    ),
    "tasks": (
        "All twenty instances have a driver that reports from the beginning; tasks are added. A heartbeat is at most "
        "three transactions (token, report, offsets), independent of other tasks, so linear growth is expected. The "
        "run, not the task, has one sample a second."
    ),
    "ids": (
        "At each size two hundred transactions a second use the ids in turn, ten tasks report, and a browser has the "
        "list of ids open. So only the existence of ids is added; the first size is the base. Memory should grow "
        "linearly, and processor time less. The server's save of the journals, once a minute, may fall into a "
        "measurement."
    ),
}
FOUND = """- Fixed: retention did not finish for a run with two weeks of samples. With autovacuum's statistics, Postgres
  compared each old sample with each other one until the statement's timeout. Nothing was removed from any table.
  Samples are now numbered in one pass (`test_samples_of_two_weeks_are_looked_through_in_time`).
- Fixed: every tenth heartbeat of a task took the run's lock on mappings without a change to write. Tasks of one run
  waited for each other. A task now reads first, without the lock
  (`test_owner_of_all_its_partitions_waits_for_no_other_task`).
- Open: when the ownership of many tasks of *one* run changes at once (start, rebalance), they take turns, each until
  its transaction is on disk. They hold connections of the pool meanwhile, so some other heartbeats are answered 503.
  Workers continue and repeat the report a second later; *all reported after* is the duration.
- Open: a server with too little processor time does not slow down evenly. An unanswered heartbeat costs as much as an
  answered one, and is sent again. If heartbeats are refused, check the machine's load first; the load of other
  processes is not in the table's cores.
"""
