"""Brokers' clocks beside ours: how far apart they are, and what an age is worth by that."""
