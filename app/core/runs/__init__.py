"""Runs, their instances and tasks: states, observations and issues."""
