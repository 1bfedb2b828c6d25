"""Structs by their fields, to find models that repeat one."""

from __future__ import annotations

import gc

import msgspec

from app.web import application


def structs_by_fields() -> dict[frozenset[str], type[msgspec.Struct]]:
    """Every struct with two fields or more that a route could return or take."""
    assert application  # its import has imported all that REST knows
    return {
        frozenset(struct.__struct_fields__): struct
        for struct in gc.get_objects()
        if isinstance(struct, type)
        and issubclass(struct, msgspec.Struct)
        and struct.__module__.startswith(("app.domain.", "app.services.", "app.ports."))
        and len(struct.__struct_fields__) > 1
    }
