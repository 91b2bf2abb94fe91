"""Settings that programs read and set at run time, under the names that Triton gives them.

    knobs.runtime.interpret = True          launch in the interpreter what is decorated from now on
    knobs.runtime.launch_enter_hook.add(f)  call f before each launch
    with knobs.compilation.scope(): ...     undo all changes at the end of the block

A setting that has an environment variable follows it until it is set from Python. Groups that steer
tools of Triton's own (`build amd proton redis`) are accepted and steer nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from workbench.language.versions import versioned
from workbench.runtime import cache as disk
from workbench.runtime.hooks import HookChain
from workbench.runtime.knob_settings import (
    ClassType,
    Env,
    F,
    GetType,
    SetType,
    base_knobs,
    env,
    env_base,
    env_bool,
    env_class,
    env_int,
    env_opt_bool,
    env_opt_str,
    env_str,
    env_str_callable_default,
    getenv,
    getenv_bool,
    knobs_type,
    propagate_by,
    setenv,
    toenv,
)
from workbench.source.warning import warn_user
from workbench.source.watched import ABSENT, Guard

#: Whether settings made from Python are also written to the environment, for child processes.
propagate_env = True
propagate_by(lambda: propagate_env)


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

    interpret = env_bool("TRITON_INTERPRET")
    debug = env_bool("TRITON_DEBUG")

    launch_enter_hook = HookChain()
    launch_exit_hook = HookChain(reversed=True)
    kernel_load_start_hook = HookChain()
    kernel_load_end_hook = HookChain(reversed=True)
    jit_cache_hook: Callable[..., bool | None] | None = None
    jit_post_compile_hook: Callable[..., object] | None = None


class compilation_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Compilations: `always_compile` looks into no cache."""

    always_compile = env_bool("TRITON_ALWAYS_COMPILE")


class autotuning_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Tuning: `cache` keeps what was found on disk, `print` says what was found."""

    cache = env_bool("TRITON_CACHE_AUTOTUNING", default=True)
    print = env_bool("TRITON_PRINT_AUTOTUNING")


class cache_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Where files lie that programs store through `get_cache_manager`."""

    dir = env_str_callable_default("TRITON_CACHE_DIR", lambda: str(disk.directory()))


class language_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Defaults of the language."""

    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", default=True)


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
        # As in Triton "13.0": code that asks splits it into two numbers.
        known = ".".join((version(name) or "").split(".")[:2])
        return None if path is None else cls(path, known)


class env_nvidia_tool(env_base[str, Any]):  # noqa: N801 - Triton's names
    """A program of the CUDA toolkit by its path, or the one that is found."""

    def __init__(self, binary: str) -> None:
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH")
        self.binary = binary

    def transform(self, val: Any) -> Any:
        """Return the tool at a path."""
        return NvidiaTool(val, "")

    def read(self, text: str) -> Any:
        """Return the tool at a path."""
        return NvidiaTool(text, "")

    def fallback(self) -> Any:
        """Return the tool that compilations use, None if it is not installed."""
        return NvidiaTool.named(self.binary)


# -- accepted, and nothing follows from them ------------------------------------------------------
class build_knobs(base_knobs):  # noqa: N801 - Triton's names
    """How Triton calls a C compiler; launchers here need none."""

    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")
    impl: Any = None

    @property
    def backend_dirs(self) -> set[str]:
        """The folders that are set."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Where a cache on another machine would be."""

    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)


class amd_knobs(base_knobs):  # noqa: N801 - Triton's names
    """AMD's back end: there is none."""

    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_bool("TRITON_HIP_USE_ASYNC_COPY")


class proton_knobs(base_knobs):  # noqa: N801 - Triton's names
    """Triton's profiler; `triton.profiler` here measures nothing."""

    disable = env_bool("TRITON_PROTON_DISABLE")
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True)


@dataclass(frozen=True)
class CompileTimes:
    """How long the parts of a compilation took, in microseconds."""

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """All stages."""
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        """Everything."""
        return self.ir_initialization + self.total_lowering + self.store_results


KernelAttr = list[str | int]


class JITHookCompileInfo(TypedDict, total=False):
    """What a hook learns of a compilation."""

    key: str
    signature: dict[Any, str]
    device: int
    num_warps: int
    num_ctas: int
    num_stages: int
    enable_fp_fusion: bool
    launch_cooperative_grid: bool
    configs: list[Any]
    is_warmup: bool


class _Hook(Protocol):
    def __call__(self, *args: Any, **given: Any) -> Any: ...


#: The shapes of hooks, which Triton tells apart for type checkers.
BuildImpl = CompilationListener = InitHandleHook = JITHook = LaunchHook = PipelineStagesHook = _Hook

runtime = runtime_knobs()
build = build_knobs()
redis = redis_knobs()
amd = amd_knobs()
proton = proton_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
cache = cache_knobs()
language = language_knobs()
nvidia = nvidia_knobs()


def deciding_launches() -> list[Guard]:
    """Return what says that settings decide of a launch what they decide now."""
    settings = ((runtime, "debug"), (language, "default_fp_fusion"))
    return [
        (space, key, space.get(key, ABSENT))
        for group, name in settings
        for space, key in group.knob_descriptors[name].places(group)
    ]


def refresh_knobs() -> None:
    """Accepted; settings that follow the environment are read when they are used."""


def _warn_once(text: str) -> None:
    warn_user(text)


__getattr__ = versioned("triton.knobs", {
    "AutotuneListener": ("3.8.0", None, lambda: _Hook),
    "FP_FUSION_DEFAULT_WARNING": ("3.9.0", None, lambda: "fused multiply-adds are allowed"),
    "warn_once": ("3.9.0", None, lambda: _warn_once),
})  # fmt: skip

__all__ = [
    "BuildImpl", "ClassType", "CompilationListener", "CompileTimes", "Env", "F", "GetType",
    "HookChain", "InitHandleHook", "JITHook", "JITHookCompileInfo", "KernelAttr", "LaunchHook",
    "NvidiaTool", "PipelineStagesHook", "SetType", "amd", "amd_knobs", "autotuning",
    "autotuning_knobs", "base_knobs", "build", "build_knobs", "cache", "cache_knobs", "compilation",
    "compilation_knobs", "env", "env_base", "env_bool", "env_class", "env_int", "env_nvidia_tool",
    "env_opt_bool", "env_opt_str", "env_str", "env_str_callable_default", "getenv", "getenv_bool",
    "knobs_type", "language", "language_knobs", "nvidia", "nvidia_knobs", "propagate_env", "proton",
    "proton_knobs", "redis", "redis_knobs", "refresh_knobs", "runtime", "runtime_knobs", "setenv",
    "toenv",
]  # fmt: skip
