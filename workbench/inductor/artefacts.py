"""Kernels of torch's compiler as its workers send them: what a launch needs, as plain data.

An artefact is made in whichever process compiles, and launched in the one that asked. Its text, its
stages and its trace are found again when somebody looks: the module that torch wrote is executed
once more, and the kernel is taken from the caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.launch.abi import LaunchData
from workbench.launch.facts import Signature
from workbench.launch.options import DEFAULTS, check_options
from workbench.launch.signature import read_signature
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import obtain, source_of
from workbench.triton.compiler.ahead import ASTSource
from workbench.triton.runtime.driver import target_name


@dataclass(eq=False)
class Artefact:
    """One specialisation of a kernel that torch wrote.

    Attributes:
        name: the kernel's name.
        target: what it was compiled for: "cpu" or a chip.
        hash: its compile key.
        file: the module that torch wrote it into.
        signature: what it is specialised on.
        launch: the numbers of a launch.
        code: the bytes that the loader takes.
        declared: places of the parameters that are declared constexpr.
    """

    name: str
    target: str
    hash: str
    file: str
    signature: Signature
    launch: LaunchData
    code: bytes
    declared: tuple[int, ...]
    index_program: Any = None
    loaded: dict[Any, Any] = field(default_factory=dict[Any, Any])
    _kernel: Any = None
    _compiled: CompiledKernel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": {}, "_kernel": None, "_compiled": None}

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread, by which torch chooses further configurations."""
        return self.launch.registers

    @property
    def kernel(self) -> Any:
        """The kernel object; its module is executed once more where another process compiled it."""
        if self._kernel is None:
            from workbench.inductor.switching import kernel_in

            self._kernel = kernel_in(self.file, self.name)
        return self._kernel

    @property
    def compiled(self) -> CompiledKernel:
        """The whole compilation, from the caches where it was made in another process."""
        if self._compiled is None:
            self._compiled = obtain(source_of(self.kernel), self.signature, self.target)
        return self._compiled

    @property
    def module(self) -> Any:
        """The tile IR, where messages look up the place of an op."""
        return self.compiled.module

    def __repr__(self) -> str:
        return f"<kernel {self.name} of torch.compile for {self.target}>"


def compile_artefact(
    kernel: Any,
    meta: Mapping[str, Any],
    target: Any,
    options: Mapping[str, Any],
    *,
    promised: bool = True,
) -> Artefact:
    """Compile one configuration of a kernel.

    Args:
        kernel: the kernel object.
        meta: torch's signature, constants and attributes of it.
        target: a `GPUTarget`.
        options: torch's compile options; those that steer Triton's own back end are not used.
        promised: torch wrote the kernel, and gave it sizes of 64 bits if its indices need them;
            what it divides toward zero is not negative.

    Raises:
        KernelError: the kernel cannot be compiled.
    """
    source = source_of(kernel)
    facts = ASTSource(kernel, meta["signature"], meta["constants"], meta["configs"][0])
    names = list(kernel.arg_names)
    constants = {names[path[0]]: value for path, value in facts.constants.items() if len(path) == 1}
    words = {name: word for name, word in facts.known_words().items() if name not in constants}
    chosen = dict(check_options({n: v for n, v in options.items() if n in DEFAULTS}, source))
    if promised and not any(str(word).startswith("i64") for word in words.values()):
        chosen["narrow_index"] = True
    if promised:
        chosen["wrap_loaded"] = True
    arguments = read_signature(source, words, constants)
    signature = Signature(arguments, tuple(sorted(chosen.items())))
    made = obtain(source, signature, target_name(target))
    return Artefact(
        name=made.name, target=made.target, hash=made.hash, file=source.file,
        signature=signature, launch=made.launch, code=made.code,
        declared=tuple(kernel.constexprs), _kernel=kernel, _compiled=made,
    )  # fmt: skip
