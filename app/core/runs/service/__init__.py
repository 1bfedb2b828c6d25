"""Use cases of runs: from a start to its end, and what its tasks report."""
