"""The reconciler's next step for one run (decision.py): pure, from its rows and from observations."""
