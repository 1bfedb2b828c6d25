"""Runs, their instances and tasks: states, what is seen of them, what needs a look."""
