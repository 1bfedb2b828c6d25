"""Clusters: entries, surveys, and checks of definitions against them."""
