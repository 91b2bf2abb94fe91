"""Trace <-> canonical JSON: sorted keys, no spaces, ASCII, and an id that says what is inside.

The schema's dataclasses are walked once; `decoder(hint)` turns a type hint into a function from
plain JSON data to a value of that type, so a new field needs no line here. Decoding is strict about
types (a trace may come from a stranger's notebook) and names the place that is wrong.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from workbench.trace.schema import VERSION, Trace

Json = Any  # what json.loads returns
Decode = Callable[[Json], Any]

_PLAIN = frozenset({int, str, bool, types.NoneType})
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

#: version -> function that turns a trace of that version (plain data) into the next one.
UPGRADES: dict[int, Callable[[dict[str, Json]], dict[str, Json]]] = {}


class TraceError(ValueError):
    """A trace that cannot be read: damaged, of a newer version, or not a trace at all."""


def key_of(field: str) -> str:
    """Return the JSON key of a field: the name without the underscore that avoids a keyword."""
    return field.rstrip("_")


def to_json(trace: Trace) -> str:
    """Return the trace as canonical JSON; equal traces give equal text."""
    return dump(to_data(trace))


def from_json(text: str | bytes) -> Trace:
    """Return the trace in JSON text; raises TraceError with the place that is wrong."""
    try:
        return from_data(json.loads(text))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"not a trace: the text is not JSON ({error})") from error


def dump(data: Json) -> str:
    """Return plain data as canonical JSON text."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def to_data(value: Any) -> Json:
    """Return a schema value as plain JSON data (dicts, lists, numbers, strings)."""
    kind: Any = value.__class__
    if kind is tuple or kind is list:
        # The bulk of a trace is rows of op ids: those are copied as they are.
        plain = _PLAIN.issuperset(map(type, value))
        return list(value) if plain else [to_data(item) for item in value]
    if kind in _PLAIN:
        return value
    return _other_data(value)


def _other_data(value: Any) -> Json:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        return {str(key): to_data(item) for key, item in cast("dict[Any, Any]", value).items()}
    if dataclasses.is_dataclass(value):
        fields = ((name, getattr(value, name)) for name in field_names(type(value)))
        return {key_of(name): to_data(item) for name, item in fields if item is not None}
    return value


def _number(value: float) -> Json:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{value}"
    # A whole number is written without ".0", as JavaScript does: both sides give the same text.
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def from_data(data: Json) -> Trace:
    """Return the trace in plain JSON data, upgraded from an older version if need be."""
    return decoder(Trace)(upgrade(data))


def upgrade(data: Json) -> dict[str, Json]:
    """Return the plain data of a trace in the present version.

    Raises TraceError for data that is no trace, and for a version newer than this program.
    """
    found: Json = cast("dict[str, Json]", data).get("version") if isinstance(data, dict) else None
    if not isinstance(found, int):
        raise TraceError("not a trace: it has no version number")
    version = found
    if version > VERSION:
        raise TraceError(
            f"the trace has version {version}, this workbench reads up to {VERSION}: "
            "update workbench to open it"
        )
    while version < VERSION:
        if version not in UPGRADES:
            raise TraceError(f"the trace has version {version}, too old for this workbench")
        data = UPGRADES[version](cast("dict[str, Json]", data))
        version = data["version"]
    return cast("dict[str, Json]", data)


def identify(trace: Trace) -> Trace:
    """Return the trace with its id: sha256 over everything but id, runs and times."""
    data = to_data(trace)
    del data["id"], data["runs"]
    data["made"].pop("time", None)
    data["kernel"].pop("cached", None)
    for timed in (*data["stages"], *data["passes"]):
        timed.pop("milliseconds", None)
    digest = hashlib.sha256(dump(data).encode()).hexdigest()
    return dataclasses.replace(trace, id=f"sha256:{digest}")


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of a schema class's fields, in order."""
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def decoder(hint: Any) -> Decode:
    """Return the function that turns plain JSON data into a value of type `hint`."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _record(hint)
    if origin is tuple:
        return _tuple(get_args(hint))
    if origin is dict:
        item = decoder(get_args(hint)[1])
        return lambda data: {key: item(value) for key, value in _expect(data, dict).items()}
    if origin is Literal:
        return _choice(get_args(hint))
    if origin in (Union, types.UnionType):
        return _union(get_args(hint))
    if hint is float:
        return _float
    return lambda data: _exactly(data, hint)


def _record(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    fields = [(name, key_of(name), decoder(hints[name])) for name in field_names(kind)]
    required = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def decode(data: Json) -> Any:
        _expect(data, dict)
        values: dict[str, Any] = {}
        for name, key, read in fields:
            if key in data:
                try:
                    values[name] = read(data[key])
                except TraceError as error:
                    raise TraceError(f"{kind.__name__}.{key}: {error}") from None
            elif name in required:
                raise TraceError(f"{kind.__name__} has no {key!r}")
        return kind(**values)

    return decode


def _tuple(items: tuple[Any, ...]) -> Decode:
    if items[-1] is Ellipsis:
        read = decoder(items[0])
        if items[0] is int:  # the bulk of a trace: op ids
            return _integers
        return lambda data: tuple([read(item) for item in _expect(data, list)])
    reads = [decoder(item) for item in items]

    def decode(data: Json) -> tuple[Any, ...]:
        if len(_expect(data, list)) != len(reads):
            raise TraceError(f"expected {len(reads)} entries, found {len(data)}")
        return tuple([read(item) for read, item in zip(reads, data, strict=True)])

    return decode


def _integers(data: Json) -> tuple[int, ...]:
    if set(map(type, _expect(data, list))) <= {int}:
        return tuple(data)
    raise TraceError("expected integers only")


def _choice(choices: tuple[Any, ...]) -> Decode:
    def decode(data: Json) -> Any:
        if data not in choices:
            raise TraceError(f"expected one of {', '.join(choices)}, found {data!r}")
        return data

    return decode


def _union(members: tuple[Any, ...]) -> Decode:
    reads = [decoder(member) for member in members if member is not types.NoneType]
    optional = types.NoneType in members

    def decode(data: Json) -> Any:
        if data is None and optional:
            return None
        if isinstance(data, str) and str in members:
            return data
        errors: list[str] = []
        for read in reads:
            try:
                return read(data)
            except TraceError as error:
                errors.append(str(error))
        raise TraceError(errors[0])

    return decode


def _float(data: Json) -> float:
    if isinstance(data, str) and data in NOT_FINITE:
        return NOT_FINITE[data]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise TraceError(f"expected a number, found {data!r}")
    return float(data)


def _exactly(data: Json, kind: type) -> Any:
    if type(data) is not kind:  # not isinstance: True is an int in Python, not in JSON
        raise TraceError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data


def _expect(data: Json, kind: type) -> Any:
    if not isinstance(data, kind):
        wanted = "an object" if kind is dict else "a list"
        raise TraceError(f"expected {wanted}, found {type(data).__name__}")
    return data
