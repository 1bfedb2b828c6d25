"""Wiring: settings in, a running server out, or a command's work on its database."""

from app.main.errors import StartError
from app.main.own_database import SchemaAction, SchemaState, migrate, on_database
from app.main.serving import Started, serve

__all__ = ["SchemaAction", "SchemaState", "StartError", "Started", "migrate", "on_database", "serve"]
