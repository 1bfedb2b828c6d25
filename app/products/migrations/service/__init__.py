"""Migrations: users request them, one loop drives them, and the evidence is kept."""
