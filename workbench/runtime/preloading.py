"""Specialisations as text: what compile hooks write down and `preload` compiles ahead."""

from __future__ import annotations

import json
from typing import Any

from workbench.launch.facts import Signature
from workbench.source import OptionError
from workbench.source.arguments import Argument


class SpecializationError(OptionError, RuntimeError):
    """A specialisation of another kernel (a RuntimeError as in Triton)."""

    code = "K113"


def write_specialization(name: str, signature: Signature, target: str) -> str:
    """Return what a kernel was specialised on as JSON."""
    return json.dumps(
        {
            "name": name,
            "target": target,
            "arguments": [[parameter, _known(known)] for parameter, known in signature.arguments],
            "options": dict(signature.options),
        }
    )


def _known(known: Argument) -> dict[str, Any]:
    stored: dict[str, Any] = {"type": known.type, "divisible": known.divisible}
    if known.items is not None:
        stored["items"] = [_known(item) for item in known.items]
    elif known.type is None:
        stored["value"] = _value(known.value)
    return stored


def _value(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return {"tuple": [_value(item) for item in value]}
        case _ if type(value).__name__ == "dtype":
            return {"dtype": value.name}
        case _:
            return {"object": repr(value)}


def read_specialization(text: str, name: str) -> tuple[Signature, str]:
    """Return the signature and target that `write_specialization` wrote.

    Raises:
        SpecializationError: it belongs to another kernel (K113).
        OptionError: it holds a value that text cannot carry (K113).
    """
    stored = json.loads(text)
    if stored["name"] != name:
        raise SpecializationError(
            f"Specialization data is for {stored['name']}, it cannot be preloaded for {name}"
        )
    arguments = tuple((parameter, _read_known(known)) for parameter, known in stored["arguments"])
    return Signature(arguments, tuple(sorted(stored["options"].items()))), stored["target"]


def _read_known(stored: dict[str, Any]) -> Argument:
    if "items" in stored:
        return Argument(None, items=tuple(_read_known(item) for item in stored["items"]))
    return Argument(stored["type"], _read_value(stored.get("value")), stored["divisible"])


def _read_value(stored: Any) -> Any:
    match stored:
        case {"tuple": items}:
            return tuple(_read_value(item) for item in items)
        case {"dtype": name}:
            from workbench.language import dtype

            return dtype(name)
        case {"object": shown}:
            raise OptionError(f"a constexpr {shown} cannot be preloaded", code="K113")
        case _:
            return stored
