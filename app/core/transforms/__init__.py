"""Declarative steps: what they say, compiled once."""
