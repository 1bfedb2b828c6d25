"""What the reconciler does next for one run (decision.py): pure, from its rows and from what was seen outside."""
