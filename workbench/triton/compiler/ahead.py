"""Compiling ahead of time in Triton's way: `compile(ASTSource(fn, signature, constexprs))`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from workbench.devices import cuda
from workbench.launch.options import DEFAULTS
from workbench.runtime.cache import compiler_stamp
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import compile as compile_kernel
from workbench.runtime.compiling import source_of
from workbench.source import OptionError
from workbench.triton.runtime.driver import GPUTarget, target_name

Path = tuple[int, ...]


@dataclass(eq=False)
class ASTSource:
    """A kernel with the types of its arguments.

    Attributes:
        fn: the kernel object.
        signature: a type per parameter by name ("*fp32", "i32", "constexpr", a tuple of them).
        constexprs: values by name or by path of places, e.g. {(2,): 128}.
        attrs: facts by path, e.g. {(0,): [["tt.divisibility", 16]]}.
    """

    fn: Any
    signature: Mapping[Any, Any]
    constexprs: Mapping[Any, Any] | None = None
    attrs: Mapping[Path, Any] | None = None
    ext: str = "ttir"
    constants: dict[Path, Any] = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Bring names and paths into one form."""
        names = list(self.fn.arg_names)
        self.name = self.fn.__name__
        self.signature = {
            names[word] if isinstance(word, int) else word: kind
            for word, kind in self.signature.items()
        }
        self.constants = {}
        for key, value in (self.constexprs or {}).items():
            path = (names.index(key),) if isinstance(key, str) else key
            self.constants[path if isinstance(path, tuple) else (path,)] = value
        self.attrs = dict(self.attrs or {})

    def hash(self) -> str:
        """Return a text that differs between different compilations."""
        parts = [self.fn.cache_key, str(self.signature), str(self.constants), str(self.attrs)]
        return sha256("\n".join(parts).encode()).hexdigest()

    def parse_options(self) -> dict[str, Any]:
        """Return the compile options that the source itself fixes: none."""
        return {}

    def known_words(self) -> dict[str, Any]:
        """Return the signature in our words: with facts, without constants."""
        words: dict[str, Any] = {}
        for place, name in enumerate(self.fn.arg_names):
            if name in self.signature:
                words[name] = self._word(self.signature[name], (place,))
        return words

    def _word(self, kind: Any, path: Path) -> Any:
        if isinstance(kind, tuple | list):
            return tuple(self._word(item, (*path, place)) for place, item in enumerate(kind))
        if path in self.constants and len(path) > 1:
            return f"={self.constants[path]!r}"
        facts = dict(map(tuple, (self.attrs or {}).get(path, ())))
        divisor = facts.get("tt.divisibility")
        return f"{kind}:{divisor}" if divisor and kind != "constexpr" else kind


def compile(
    src: Any,
    target: GPUTarget | str | None = None,
    options: Mapping[str, Any] | None = None,
    _env_vars: Any = None,
) -> CompiledKernel:
    """Compile a source for a target; without one for the current device.

    Options that only steer Triton's own back end are accepted and not used.
    """
    if not isinstance(src, ASTSource):
        raise OptionError(
            f"compile takes an ASTSource, got a {type(src).__name__}",
            hint="triton.compiler.ASTSource(fn=kernel, signature={...}, constexprs={...})",
            code="K113",
        )
    names = list(src.fn.arg_names)
    constants = {names[path[0]]: value for path, value in src.constants.items() if len(path) == 1}
    given = {name: value for name, value in (options or {}).items() if name in DEFAULTS}
    words = {name: word for name, word in src.known_words().items() if name not in constants}
    kernel = source_of(src.fn)
    return compile_kernel(kernel, words, constants, target_name(target), **given)


def max_shared_mem(device: int) -> int:
    """Return the bytes of shared memory that a program may have on a device; 0 without a GPU."""
    return cuda.properties(device).shared_bytes if cuda.available() else 0


def get_cache_key(
    src: ASTSource, backend: BaseBackend, backend_options: Any = None, env_vars: Any = None
) -> str:
    """Return a text that differs between different compilations."""
    options = backend_options.hash() if hasattr(backend_options, "hash") else backend_options
    return f"{src.hash()}-{backend.hash()}-{options}-{sorted((env_vars or {}).items())}"


class BaseBackend:
    """What compiles for a target.

    Attributes:
        target: the target.
        binary_ext: the name of the last stage.
    """

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        self.binary_ext = "cubin" if target.backend == "cuda" else "asm"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Say whether there is a compiler for a target."""
        return target.backend in ("cuda", "cpu")

    def hash(self) -> str:
        """Return a text that differs between compilers."""
        return f"{compiler_stamp()}-{target_name(self.target)}"

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """Return compile options with their defaults filled in."""
        known = {name: value for name, value in options.items() if name in DEFAULTS}
        return Options({**DEFAULTS, "num_warps": 4, "num_stages": 3, **known})


class Options:
    """Compile options as attributes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def hash(self) -> str:
        """Return a text that differs between different options."""
        return sha256(str(sorted(self.__dict__.items())).encode()).hexdigest()


@dataclass(frozen=True)
class Backend:
    """A kind of target: its compiler and its driver."""

    compiler: type
    driver: type


def make_backend(target: GPUTarget) -> BaseBackend:
    """Return what compiles for a target."""
    if not BaseBackend.supports_target(target):
        raise OptionError(f"no compiler for {target}", code="K114")
    return BaseBackend(target)
