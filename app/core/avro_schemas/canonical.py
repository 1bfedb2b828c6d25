"""Avro's Parsing Canonical Form and its fingerprint, by the specification of Avro 1.12."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, cast

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.names import PRIMITIVES

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def fingerprint(schema: AvroSchema) -> str:
    """Return the SHA-256 of the Parsing Canonical Form, in hexadecimal.

    The form leaves out defaults, documentation, aliases, properties and logical types.
    """
    return hashlib.sha256(canonical_form(schema).encode()).hexdigest()


def canonical_form(schema: AvroSchema) -> str:
    """Return the Parsing Canonical Form of a valid schema."""
    return _form(schema, "")


def full_name(name: str, namespace: str) -> str:
    """Return the name with its namespace: a name with a dot has its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _form(schema: AvroSchema, namespace: str) -> str:
    if isinstance(schema, str):
        return json.dumps(schema if schema in PRIMITIVES else full_name(schema, namespace))
    if isinstance(schema, list):
        return f"[{','.join(_form(branch, namespace) for branch in schema)}]"
    type_ = schema["type"]
    if not isinstance(type_, str) or (type_ not in _NAMED and type_ not in ("array", "map")):
        return _form(type_, namespace)
    if type_ == "array":
        return f'{{"type":"array","items":{_form(schema["items"], namespace)}}}'
    if type_ == "map":
        return f'{{"type":"map","values":{_form(schema["values"], namespace)}}}'
    name = full_name(schema["name"], schema.get("namespace", namespace))
    inner = name.rpartition(".")[0]
    parts = [f'"name":{json.dumps(name)}', f'"type":{json.dumps(type_)}']
    if type_ == "enum":
        parts.append(f'"symbols":[{",".join(json.dumps(symbol) for symbol in schema["symbols"])}]')
    elif type_ == "fixed":
        parts.append(f'"size":{int(schema["size"])}')
    else:
        fields = cast("list[dict[str, Any]]", schema["fields"])
        forms = [f'{{"name":{json.dumps(field["name"])},"type":{_form(field["type"], inner)}}}' for field in fields]
        parts.append(f'"fields":[{",".join(forms)}]')
    return f"{{{','.join(parts)}}}"
