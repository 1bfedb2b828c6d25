"""Use cases of runs: from a start to its end, and the reports of its tasks."""
