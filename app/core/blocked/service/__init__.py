"""Blocked consumers, and ending a transaction by hand."""
