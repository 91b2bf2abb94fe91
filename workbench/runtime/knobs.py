"""Settings that programs read and set at run time, under the names that Triton gives them.

    knobs.runtime.interpret = True          launch in the interpreter what is decorated from now on
    knobs.runtime.launch_enter_hook.add(f)  call f before each launch
    with knobs.compilation.scope(): ...     undo all changes at the end of the block

A setting that has an environment variable follows it until it is set from Python. Settings that
steer a tool of Triton's own are not here, so that `hasattr` tells the truth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from workbench.runtime import cache as disk
from workbench.runtime.hooks import HookChain

_UNSET: Any = object()

#: Whether settings made from Python are also written to the environment, for child processes.
propagate_env = True


class Env:
    """Assigned to a setting, makes it follow its environment variable again."""


env = Env()


class _Setting:
    """A setting with an environment variable; `read` makes a value of the variable's text."""

    def __init__(self, key: str, read: Callable[[str], Any], default: Any = None) -> None:
        self.key = key
        self._read = read
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, knobs: Any, owner: type | None = None) -> Any:
        if knobs is None:
            return self
        value = knobs.__dict__.get(self._name, _UNSET)
        if value is not _UNSET:
            return value
        text = os.environ.get(self.key)
        if text is None:
            return self._default() if callable(self._default) else self._default
        return self._read(text)

    def __set__(self, knobs: Any, value: Any) -> None:
        if isinstance(value, Env):
            self.__delete__(knobs)
            return
        knobs.__dict__[self._name] = value
        if propagate_env:
            self._export(value)

    def __delete__(self, knobs: Any) -> None:
        knobs.__dict__.pop(self._name, None)

    def _export(self, value: Any) -> None:
        if value is None:
            os.environ.pop(self.key, None)
        elif isinstance(value, bool):
            os.environ[self.key] = "1" if value else "0"
        elif isinstance(value, int | str):
            os.environ[self.key] = str(value)


def _truth(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "on", "yes", "y", "t")


def _switch(key: str, default: bool = False) -> Any:
    return _Setting(key, _truth, default)


def _text(key: str, default: Any = None) -> Any:
    return _Setting(key, str, default)


Self = TypeVar("Self", bound="base_knobs")


class base_knobs:  # noqa: N801 - Triton's names
    """A group of settings."""

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        """The settings that have an environment variable."""
        return {name: x for name, x in vars(type(self)).items() if isinstance(x, _Setting)}

    @property
    def knobs(self) -> dict[str, Any]:
        """Their values."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self: Self) -> Self:
        """Return a group with the same settings."""
        other = type(self)()
        other.__dict__.update(self.__dict__)
        return other

    def reset(self: Self) -> Self:
        """Make all settings follow the environment again."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo what is set within the block."""
        keys = [setting.key for setting in self.knob_descriptors.values()]
        variables = {key: os.environ.get(key) for key in keys}
        before = dict(self.__dict__)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)
            for key, value in variables.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


class runtime_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Launches.

    Attributes:
        interpret: kernels decorated while this is set run in the interpreter.
        debug: device assertions are on.
        launch_enter_hook: called before a launch with what is to be launched.
        launch_exit_hook: called after it.
        kernel_load_start_hook: called before code is loaded on a device.
        kernel_load_end_hook: called after it.
        jit_cache_hook: called before a kernel compiles for a new specialisation; True from it
            means that the kernel is neither compiled nor launched.
        jit_post_compile_hook: called after it has compiled.
    """

    interpret = _switch("TRITON_INTERPRET")
    debug = _switch("TRITON_DEBUG")

    launch_enter_hook = HookChain()
    launch_exit_hook = HookChain(reversed=True)
    kernel_load_start_hook = HookChain()
    kernel_load_end_hook = HookChain(reversed=True)
    jit_cache_hook: Callable[..., bool | None] | None = None
    jit_post_compile_hook: Callable[..., object] | None = None


class compilation_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Compilations: `always_compile` looks into no cache."""

    always_compile = _switch("TRITON_ALWAYS_COMPILE")


class autotuning_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Tuning: `cache` keeps what was found on disk, `print` says what was found."""

    cache = _switch("TRITON_CACHE_AUTOTUNING", default=True)
    print = _switch("TRITON_PRINT_AUTOTUNING")


class cache_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Where files lie that programs store through `get_cache_manager`."""

    dir = _text("TRITON_CACHE_DIR", lambda: str(disk.directory()))


class language_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Defaults of the language."""

    default_fp_fusion = _switch("TRITON_DEFAULT_FP_FUSION", default=True)


class nvidia_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Tools of NVIDIA: paths, None where a tool is not installed."""

    @property
    def ptxas(self) -> NvidiaTool | None:
        """Ptxas."""
        return NvidiaTool.named("ptxas")

    @property
    def nvdisasm(self) -> NvidiaTool | None:
        """Nvdisasm."""
        return NvidiaTool.named("nvdisasm")


@dataclass(frozen=True, slots=True)
class NvidiaTool:
    """A program of the CUDA toolkit."""

    path: str
    version: str

    @classmethod
    def named(cls, name: str) -> NvidiaTool | None:
        """Return the tool that compilations use, None if it is not installed."""
        from workbench.targets.nvidia.toolchain import find, version

        path = find(name)
        return None if path is None else cls(path, version(name) or "")


runtime = runtime_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
cache = cache_knobs()
language = language_knobs()
nvidia = nvidia_knobs()


def refresh_knobs() -> None:
    """Accepted; settings that follow the environment are read when they are used."""
