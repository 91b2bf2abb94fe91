"""What is installed and what is missing, the settings, and the cache: `%workbench …`."""

from __future__ import annotations

import importlib.util
import platform
from typing import Any

from workbench import __version__
from workbench.compiler import package_version
from workbench.magics.values import closest
from workbench.source import OptionError, budgets

#: Settings of this process: name -> (value, allowed values)
_settings: dict[str, tuple[str, tuple[str, ...]]] = {"tracebacks": ("short", ("short", "full"))}


def setting(name: str) -> str:
    """Return the value of a setting."""
    return _settings[name][0]


def version(value: str | None = None) -> str:
    """Return the versions of the package and of what it stands on."""
    names = ("workbench", "llvmlite", "torch", "cuda-python", "numpy", "ipython", "jupyterlab")
    lines = [f"python       {platform.python_version()}"]
    return "\n".join([*lines, *(f"{name:<12} {package_version(name)}" for name in names)])


def doctor(value: str | None = None) -> str:
    """Return each part with its state, and the line that brings a missing one."""
    rows = diagnose()
    width = max(len(name) for name, _, _ in rows)
    lines = []
    for name, state, fix in rows:
        lines.append(f"{name:<{width}}  {state}")
        if fix:
            lines.append(f"{'':<{width}}  → {fix}")
    return "\n".join(lines)


def diagnose() -> list[tuple[str, str, str]]:
    """Return (part, state, what to do about it) for every part; nothing to do is empty."""
    return [
        ("workbench", f"{__version__} on Python {platform.python_version()}", ""),
        ("llvmlite", package_version("llvmlite"), ""),
        _torch(),
        _gpu(),
        _tool("ptxas", "nvidia-cuda-nvcc"),
        _tool("nvdisasm", "nvidia-cuda-nvdisasm"),
        _front_end(),
        _cache(),
    ]


def _torch() -> tuple[str, str, str]:
    if importlib.util.find_spec("torch") is None:
        return ("torch", "missing", "pip install torch")
    return ("torch", package_version("torch"), "")


def _gpu() -> tuple[str, str, str]:
    from workbench.bench.device import has_gpu

    if not has_gpu():
        return ("GPU", "none: kernels run on the CPU, and are compiled for sm_90a to look at", "")
    import torch

    major, minor = torch.cuda.get_device_capability(0)
    return ("GPU", f"{torch.cuda.get_device_name(0)} (sm_{major}{minor})", "")


def _tool(name: str, package: str) -> tuple[str, str, str]:
    from workbench.targets.nvidia import toolchain

    path = toolchain.find(name)
    if path is None:
        return (name, "missing: its pane stays empty", f"pip install {package}")
    return (name, f"{toolchain.version(name) or 'unknown version'} at {path}", "")


def _front_end() -> tuple[str, str, str]:
    from workbench.viewer import frontend

    if frontend.built():
        return ("viewer", "interactive", "")
    return ("viewer", "static output only", "install from a wheel, or build where npm packages are")


def _cache() -> tuple[str, str, str]:
    from workbench.runtime import cache as disk

    if not disk.enabled():
        return ("cache", "off (WORKBENCH_CACHE_DIR is empty)", "")
    entries, size = disk.usage()
    return ("cache", f"{disk.directory()}: {entries} kernels, {size / 1e6:.1f} MB", "")


def _trusted() -> list[str]:
    from workbench.runtime import cache as disk

    return disk.trusted() if disk.enabled() else []


def cache(value: str | None = None) -> str:
    """Return where the cache is, how large, and what of it is trusted; "clear" empties it."""
    from workbench.runtime import cache as disk

    if value == "clear":
        return f"removed {disk.clear()} kernels"
    if value is not None:
        raise OptionError(
            f"unknown word '{value}' for the cache{closest(value, ('clear',))}",
            code="K103",
            hint="%workbench cache shows what there is, %workbench cache clear empties it",
        )
    return "\n".join([_cache()[1], *_trusted()])


def view(value: str | None = None) -> str:
    """Return or set what shows the viewer: auto, widget or static."""
    from workbench.viewer import choose, mode

    if value is None:
        return f"view {mode.host()} ({mode.place()})"
    if value not in mode.MODES:
        raise OptionError(
            f"unknown view '{value}'", code="K103", hint=f"one of {', '.join(mode.MODES)}"
        )
    choose(value)  # type: ignore[arg-type]
    return f"view {value}"


def config(value: str | None = None) -> str:
    """Return all settings and the limits of compilations, or set one setting by name=value.

    A name alone returns its value.
    """
    if value is None:
        lines = [f"{name}={current}" for name, (current, _) in _settings.items()]
        own = " and ".join(name for name, row in budgets.BUDGETS.items() if row.raisable)
        heading = (
            "limits: an error names what is over one; they are fixed but for "
            f"{own} (NAME=NUMBER changes one)"
        )
        return "\n".join([*lines, "", heading, budgets.table()])
    name, equals, chosen = value.partition("=")
    known = "; ".join(f"{n}={'|'.join(allowed)}" for n, (_, allowed) in _settings.items())
    if name in budgets.BUDGETS and budgets.BUDGETS[name].raisable:
        return _limit(name, chosen)
    if name in budgets.BUDGETS:
        raise OptionError(f"the limit of '{name}' is fixed", code="K103", hint=f"settings: {known}")
    if name not in _settings:
        better = closest(name, _settings)
        raise OptionError(f"unknown setting '{name}'{better}", code="K103", hint=known)
    if equals and chosen not in _settings[name][1]:
        raise OptionError(f"'{chosen}' is no value of {name}", code="K103", hint=known)
    if not equals:
        chosen = setting(name)
    _settings[name] = (chosen, _settings[name][1])
    return f"{name}={chosen}"


def _limit(name: str, chosen: str) -> str:
    """Return a limit that is the user's, or change it."""
    if chosen and not (chosen.isdecimal() and int(chosen)):
        unit = budgets.BUDGETS[name].unit
        raise OptionError(
            f"'{chosen}' is no number of {unit}", code="K103", hint=f"%workbench config {name}=600"
        )
    if chosen:
        budgets.raise_limit(name, int(chosen))
    return f"{name}={budgets.limit_of(name)}"


def data_of(what: str, text: str) -> dict[str, Any]:
    """Return what a word of `%workbench` says as plain data; `text` is what it said."""
    match what:
        case "doctor":
            return {
                "parts": {name: {"state": s, "fix": fix or None} for name, s, fix in diagnose()}
            }
        case "version":
            return {"versions": dict(line.split(None, 1) for line in text.splitlines())}
        case "config":
            limits = {
                name: {"limit": budgets.limit_of(name), "unit": row.unit, "what": row.what}
                for name, row in budgets.BUDGETS.items()
            }
            return {"settings": {n: value for n, (value, _) in _settings.items()}, "limits": limits}
        case "view":
            return {"view": text.removeprefix("view ")}
        case _:
            return {"text": text, **_cached()}


def _cached() -> dict[str, Any]:
    from workbench.runtime import cache as disk

    if not disk.enabled():
        return {"folder": None, "kernels": 0, "bytes": 0, "trusted": []}
    entries, size = disk.usage()
    return {
        "folder": str(disk.directory()), "kernels": entries, "bytes": size, "trusted": _trusted(),
    }  # fmt: skip
