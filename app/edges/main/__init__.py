"""Wiring: settings in, a running server out, or a command's work on its database."""

from app.edges.main.errors import StartError
from app.edges.main.own_database import SchemaAction, SchemaState, migrate, on_database
from app.edges.main.serving import Started, serve

__all__ = ["SchemaAction", "SchemaState", "StartError", "Started", "migrate", "on_database", "serve"]
