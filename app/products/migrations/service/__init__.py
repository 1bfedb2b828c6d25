"""Migrations: asked for by people, driven by one loop, proven by looks that are kept."""
