"""Transforms: declarative steps, compiled once, and Python files."""
