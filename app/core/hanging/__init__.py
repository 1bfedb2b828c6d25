"""Hanging transactions: the continuous search, and its results."""
