"""The schema for others: TypeScript types and a JSON schema, generated from the dataclasses.

    python -m workbench.trace.typescript        # writes extension/src/trace.ts and schema.json

A test regenerates both and compares, so they never differ from `schema.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from workbench.trace import answers, schema
from workbench.trace.codec import key_of

PACKAGE = Path(__file__).parent
SCHEMA_FILE = PACKAGE / "schema.json"
TYPES_FILE = PACKAGE.parents[1] / "extension" / "src" / "trace.ts"

#: Modules whose dataclasses are written, and their aliases.
MODULES = (schema, answers)
ALIASES = [
    "StageId",
    "StageState",
    "Pipe",
    "Role",
    "StepKind",
    "Severity",
    "AnyFloat",
    "Scalar",
    "RowRun",
    "RowMap",
    "Place",
    "Vectors",
    "Access",
    "Quantiles",
    "Facing",
    "FacingRun",
]
NOT_FINITE = '"nan" | "inf" | "-inf"'


def typescript() -> str:
    """Return the text of trace.ts."""
    parts = [
        "// Generated from workbench/trace/ (schema.py, answers.py) by "
        "`python -m workbench.trace.typescript`.",
        f"export const TRACE_VERSION = {schema.VERSION};",
        *(f"export type {name} = {_ts(_alias(name), skip=name)};" for name in ALIASES),
        *(_interface(kind) for kind in records()),
    ]
    return "\n".join(parts) + "\n"


def json_schema() -> str:
    """Return the JSON schema (2020-12) as text."""
    value = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "workbench trace",
        "$ref": "#/$defs/Trace",
        "$defs": {kind.__name__: _object(kind) for kind in records()},
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def records() -> list[type]:
    """Return the dataclasses in the order of their files."""
    return [
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type)
        and dataclasses.is_dataclass(kind)
        and kind.__module__ == module.__name__
    ]


def _alias(name: str) -> Any:
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    """Return (JSON key, type hint, whether it is always there) of each field."""
    hints = get_type_hints(kind, include_extras=True)
    found: list[tuple[str, Any, bool]] = []
    for field in dataclasses.fields(kind):
        default = (field.default, field.default_factory) != (dataclasses.MISSING,) * 2
        always = not default or bool(field.metadata.get("always"))
        found.append((key_of(field.name), hints[field.name], always))
    return found


def _interface(kind: type) -> str:
    summary = (inspect.getdoc(kind) or "").split("\n")[0]
    lines = [f"/** {summary} */", f"export interface {kind.__name__} {{"]
    for key, hint, always in _fields(kind):
        lines.append(f"  {key}{'' if always else '?'}: {_ts(hint)};")
    return "\n".join([*lines, "}"])


def _class_name(hint: Any) -> str:
    """Return the name of a dataclass, nothing for other types."""
    return hint.__name__ if dataclasses.is_dataclass(hint) and isinstance(hint, type) else ""


def _ts(hint: Any, skip: str = "") -> str:
    for name in ALIASES:
        if name != skip and hint == _alias(name):
            return name
    origin, arguments = get_origin(hint), get_args(hint)
    if name := _class_name(hint):
        return name
    if origin is Annotated:
        return f"number | {NOT_FINITE}"
    if origin is Literal:
        return " | ".join(f'"{choice}"' for choice in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_ts(member) for member in _flat(hint)))
    if origin is tuple and arguments[-1] is Ellipsis:
        item = _ts(arguments[0])
        return f"({item})[]" if " " in item and not item.startswith("[") else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(_ts(item) for item in arguments)}]"
    if origin is dict:
        return f"Record<string, {_ts(arguments[1])}>"
    return {int: "number", float: "number", str: "string", bool: "boolean"}.get(hint, "null")


def _flat(hint: Any) -> list[Any]:
    """Return the members of a union, those of an alias together if it is contained whole."""
    members = list(get_args(hint))
    whole = list(get_args(schema.Scalar))
    if all(member in members for member in whole) and hint != schema.Scalar:
        return [schema.Scalar, *(member for member in members if member not in whole)]
    return members


def _object(kind: type) -> dict[str, Any]:
    described = inspect.getdoc(kind) or ""
    fields = _fields(kind)
    return {
        "type": "object",
        "description": described,
        "properties": {key: _schema(hint) for key, hint, _ in fields},
        "required": sorted(key for key, _, always in fields if always),
    }


def _schema(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if name := _class_name(hint):
        return {"$ref": f"#/$defs/{name}"}
    if origin is Annotated:
        return {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(member) for member in arguments]}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is tuple:
        items = [_schema(item) for item in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    names = {int: "integer", float: "number", str: "string", bool: "boolean"}
    return {"type": names.get(hint, "null")}


def main() -> None:
    """Write both files."""
    SCHEMA_FILE.write_text(json_schema(), encoding="utf-8")
    if TYPES_FILE.parent.is_dir():
        TYPES_FILE.write_text(typescript(), encoding="utf-8")


if __name__ == "__main__":
    main()
