"""Alerts for programs elsewhere: their kinds, and the conditions for each."""
