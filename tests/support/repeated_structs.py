"""Structs by their fields, to find models that repeat one."""

from __future__ import annotations

import gc

import msgspec

from app.edges.main import users_app as application


def structs_by_fields() -> dict[frozenset[str], type[msgspec.Struct]]:
    """Every struct with two fields or more that a route could return or take. The command line reads answers only."""
    assert application  # its import has imported all that REST knows
    return {
        frozenset(struct.__struct_fields__): struct
        for struct in gc.get_objects()
        if isinstance(struct, type)
        and issubclass(struct, msgspec.Struct)
        and struct.__module__.startswith(("app.core.", "app.products.", "app.kit."))
        and not struct.__module__.startswith("app.products.direct.")
        and len(struct.__struct_fields__) > 1
    }
