"""Options of a compile or launch under their language names, checked.

A launch may also carry words that other hosts use for Triton's own tuning of its compiler; they
are accepted where ignoring them cannot change a result.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from workbench.source import KernelSource, OptionError, shown
from workbench.source.compile_options import COMPILE_OPTIONS, CompileOption, compile_option
from workbench.source.given import plain_number
from workbench.source.warning import warn_user

#: name -> the value that stands for "unset": it is left out of the compile key
DEFAULTS: dict[str, Any] = {option.name: option.default for option in COMPILE_OPTIONS}

SHORT_FORMS = {"warps": "num_warps", "stages": "num_stages", "ctas": "num_ctas"}

#: Accepted and without effect here, since they steer what our compiler does not do: what stands for
#: "unset", and what is said of any other value ("": nothing, who lists it does so for others).
#: Those of Triton for AMD stand in its tutorials' lists for whatever is no CUDA device.
_UNHEARD: dict[str, tuple[Any, str]] = {
    "ir_override": (None, "an edited stage is given by %%override, or wb.compile(override=...)"),
    "enable_reflect_ftz": (True, "libdevice's functions are this compiler's own, nothing reflects"),
    "extern_libs": (None, "no library is linked; libdevice's functions are this compiler's own"),
    "sanitize_overflow": (False, "integers wrap unchecked; --guard and interpret find accesses"),
    "ptx_options": (None, "ptxas gets the options that this compiler wants"),
    "ptx_version": (None, "PTX has the version that the chip needs"),
    "instrumentation_mode": ("", "nothing is instrumented"),
    "arch": (None, "a chip is chosen by target=, e.g. target=\"sm_90a\""),
    "waves_per_eu": (None, ""), "matrix_instr_nonkdim": (None, ""), "kpack": (None, ""),
    "schedule_hint": (None, ""),
}  # fmt: skip
WITHOUT_EFFECT = frozenset(_UNHEARD)

#: Options of a launch that choose where and how it runs.
PLACES = frozenset(("stream", "device", "target", "guard"))


class UnheardOptionWarning(UserWarning):
    """An option of a launch asks for something that is not done here."""


class UnknownOptionError(OptionError, KeyError):
    """An option or keyword argument that a kernel does not have (a KeyError as in Triton)."""

    code = "K112"


def option_elsewhere(word: str) -> str | None:
    """Say where a compile option or the grid is given, None for any other word."""
    if word == "grid":
        return "the grid stands in brackets at the launch: kernel[grid](...)"
    if not is_option(word):
        return None
    name = SHORT_FORMS.get(word, word)
    return f"give it at the launch, kernel[grid](..., {name}=...), or in a Config that tuning tries"


def is_option(word: str) -> bool:
    """Say whether launches take such a compile option, obeyed or not."""
    return word in SHORT_FORMS or word in DEFAULTS or word in WITHOUT_EFFECT


def without_effect(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of a launch that change nothing here; hooks are told of them."""
    return {name: value for name, value in given.items() if name in WITHOUT_EFFECT}


def long_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under their long names; None, which asks for nothing, gives way.

    Raises OptionError K112 for one that is given under both of its names.
    """
    found: dict[str, Any] = {}
    for word, value in given.items():
        name = SHORT_FORMS.get(word, word)
        if found.get(name) is None:
            found[name] = value
        elif value is not None:
            short = next(short for short, long in SHORT_FORMS.items() if long == name)
            raise OptionError(
                f"one option under two names: {short}={shown(given[short], 40)} and "
                f"{name}={shown(given[name], 40)}",
                hint=f"keep {name}=, which Triton knows too, and take {short}= out",
                code="K112",
            )
    return found


def check_options(
    given: Mapping[str, Any], source: KernelSource | None = None
) -> tuple[tuple[str, Any], ...]:
    """Return the options that differ from their defaults, under their long names, sorted.

    What asks for something that is not done here is a warning, once for each line of the user's.

    Raises:
        UnknownOptionError: a name that is neither an option nor a parameter (K112).
        OptionError: a value that the option cannot take, or two names of one option (K112).
    """
    chosen: dict[str, Any] = {}
    for name, value in long_names(given).items():
        if name in WITHOUT_EFFECT:
            _say_unheard(name, value)
            continue
        if name not in DEFAULTS:
            raise unknown_option(name, source)
        value = plain_number(value)
        option = _checked(name, value)
        if value is not None and not option.counts:
            value = bool(value)  # passes ask whether it is False, which 0 is not
        if value is not None and value != DEFAULTS[name]:
            chosen[name] = value
    return tuple(sorted(chosen.items()))


def is_heard(word: str, value: Any) -> bool:
    """Say whether an option is obeyed or asks for nothing: then no line of the user's is told."""
    name, value = SHORT_FORMS.get(word, word), plain_number(value)
    if isinstance(value, bool | int) or value is None:
        return name in DEFAULTS or (name in _UNHEARD and not _unheard(name, value))
    return False


def _unheard(name: str, value: Any) -> str:
    """Return what is done instead of what an option asks for, "" if it asks for nothing."""
    unset, instead = _UNHEARD[name]
    asks = value is not None and value != unset and (value or unset)
    return instead if asks else ""


def _say_unheard(name: str, value: Any) -> None:
    if instead := _unheard(name, value):
        text = f"{name}={shown(value, 40)} has no effect: {instead}"
        warn_user(text, UnheardOptionWarning)


def unknown_option(word: str, source: KernelSource | None) -> UnknownOptionError:
    """Return the error for a name that nobody knows."""
    parameters = [p.name for p in source.parameters] if source is not None else []
    known = [*parameters, *DEFAULTS, *SHORT_FORMS]
    close = difflib.get_close_matches(word[:100], known, n=1)
    better = f"; did you mean {close[0]}?" if close and close[0] != word else ""
    if word in parameters:
        better = f": {word} is an argument of the launch"
    hint = None
    if source is not None:
        hint = f"{source.name} takes {', '.join(parameters)}; options are {', '.join(DEFAULTS)}"
    return UnknownOptionError(f"no constexpr or option '{word}'{better}", hint=hint)


def _checked(name: str, value: Any) -> CompileOption:
    """Return the option of a name, which can take the value."""
    option = compile_option(name)
    assert option is not None
    if not option.counts:
        if value is not None and not (isinstance(value, int) and value in (0, 1)):
            raise OptionError(
                f"{name} is True or False, got {shown(value)}",
                hint=f"e.g. {name}=True",
                code="K112",
            )
        return option
    if value is None:
        return option
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionError(
            f"{name} is a positive integer, got {shown(value)}",
            hint=f"e.g. {name}=4, or leave it out",
            code="K112",
        )
    if option.most is not None and value > option.most:
        raise OptionError(f"{name} is at most {option.most:,}, got {shown(value)}", code="K112")
    if name == "cluster" and value not in (1, 2, 4, 8):
        raise OptionError(
            f"cluster is a power of two up to 8, got {shown(value)}",
            hint="use 1, 2, 4 or 8",
            code="K112",
        )
    if name == "num_warps" and (value > 32 or value & (value - 1)):
        raise OptionError(
            f"num_warps is a power of two up to 32, got {shown(value)}",
            hint="use 1, 2, 4, 8, 16 or 32",
            code="K112",
        )
    return option
