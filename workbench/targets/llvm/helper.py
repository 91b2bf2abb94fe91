# pyright: basic
"""The process in which LLVM generates code: run as a script, it knows nothing of this package.

It reads requests from its input and writes answers to its output, each as marshalled data behind
its length in eight bytes. A request is (number, want, machine, LLVM IR as bytes): what is wanted is
"assembly", "object", "types", the type of every named value, or "verified", whether LLVM's verifier
takes it. An answer is (number, bytes, None),
or (number, words, whether the IR parses). Where LLVM ends the process, the last that it wrote to
the error stream says why. The end of its input ends it.

What it imports decides how fast it starts, so that is little, and LLVM is reached by the C
functions of llvmlite's library, as its Python files reach it. For versions whose functions are not
known to be these, for "types" and for "verified", those are imported.
"""

from __future__ import annotations

import _thread
import ctypes
import marshal
import os
import sys

#: Versions of llvmlite whose C functions take what `Direct` gives them.
KNOWN = ("0.50.",)
#: Options for the targets of triples that begin so. LLVM's pass that avoids stalls behind stores
#: asks halves of masked accesses, of which nobody knows how much they touch, for their size, and
#: asserts: vectors of 512 bits where registers have 256.
OPTIONS = {"x86_64": ("--x86-disable-avoid-SFB",)}
#: The same, of options that the versions `KNOWN` have. Where LLVM makes a sum or product of an
#: earlier one (SLSR), it asks of each pair whether that one could be poison: two thirds of its time
#: where many addresses are written out. Versions before did not ask. What is written as not
#: wrapping (`nsw`) wraps at most in lanes that a mask switches off, and behind the last round of a
#: loop, whose addresses nobody uses. GVN asks of each load what was loaded or stored before it,
#: which changes none of the texts that tests.bench.texts compares.
OPTIONS_OF_KNOWN = {"nvptx64": ("--enable-poison-reuse-guard=0", "--enable-gvn-memdep=0")}
_LIBRARIES = {"darwin": "libllvmlite.dylib", "win32": "llvmlite.dll"}


class UnreadableError(Exception):
    """The IR does not parse."""


def _places(machine: dict) -> str:
    """Return LLVM's option for what is written of an instruction whose place is not known."""
    return f"--use-unknown-locations={'Enable' if machine['places'] else 'Default'}"


def options_for(machine: dict, already: set, version: str) -> tuple:
    """Return the options for a machine's target that were not set already."""
    name = machine["triple"].split("-")[0]
    options = {**OPTIONS, **OPTIONS_OF_KNOWN} if version.startswith(KNOWN) else OPTIONS
    if name in already or name not in options:
        return ()
    already.add(name)
    return options[name]


class Direct:
    """Generates code by the C functions."""

    def __init__(self, folder: str) -> None:
        name = _LIBRARIES.get(sys.platform, "libllvmlite.so")
        library = ctypes.CDLL(f"{folder}/binding/{name}")
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        self._call: dict = {}
        for function, result, arguments in (
            ("ContextCreate", pointer, []),
            ("ContextDispose", None, [pointer]),
            ("ParseAssembly", pointer, [pointer, text, pointer]),
            ("DisposeModule", None, [pointer]),
            ("GetTargetFromTriple", pointer, [text, pointer]),
            (
                "CreateTargetMachine",
                pointer,
                [pointer, text, text, text, number, text, text, number, number, text],
            ),
            ("TargetMachineEmitToMemory", pointer, [pointer, pointer, number, pointer]),
            ("GetBufferStart", pointer, [pointer]),
            ("GetBufferSize", ctypes.c_size_t, [pointer]),
            ("DisposeMemoryBuffer", None, [pointer]),
            ("SetCommandLine", None, [text, text]),
        ):
            found = self._call[function] = getattr(library, f"LLVMPY_{function}")
            found.restype, found.argtypes = result, arguments
        for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            getattr(library, f"LLVMPY_InitializeAll{part}")()
        self._machines: dict = {}
        self._set: set = set()
        self._places = False

    def generate(self, text: bytes, machine: dict, *, is_object: bool) -> bytes:
        """Return assembly or an object file; raises UnreadableError."""
        if machine["places"] != self._places:
            self._call["SetCommandLine"](b"", _places(machine).encode())
            self._places = machine["places"]
        call, said = self._call, ctypes.c_char_p()
        unit = self._machine(machine)
        context = call["ContextCreate"]()
        module = call["ParseAssembly"](context, text, ctypes.byref(said))
        if said.value:
            raise UnreadableError(said.value.decode(errors="replace"))
        emit = call["TargetMachineEmitToMemory"]
        buffer = emit(unit, module, is_object, ctypes.byref(said))
        if not buffer:
            raise RuntimeError((said.value or b"no code").decode(errors="replace"))
        made = ctypes.string_at(call["GetBufferStart"](buffer), call["GetBufferSize"](buffer))
        call["DisposeMemoryBuffer"](buffer)
        call["DisposeModule"](module)
        call["ContextDispose"](context)
        return made

    def _machine(self, machine: dict) -> object:
        key = marshal.dumps(machine)
        if key not in self._machines:
            said = ctypes.c_char_p()
            triple, processor, features = (
                machine[name].encode() for name in ("triple", "processor", "features")
            )
            target = self._call["GetTargetFromTriple"](triple, ctypes.byref(said))
            if not target:
                raise RuntimeError((said.value or b"no such target").decode(errors="replace"))
            for option in options_for(machine, self._set, KNOWN[0]):
                self._call["SetCommandLine"](b"", option.encode())
            self._machines[key] = self._call["CreateTargetMachine"](
                target, triple, processor, features, machine["optimisation"],
                b"pic" if machine["jit"] else b"default", b"default", 0, machine["jit"], b"",
            )  # fmt: skip
        return self._machines[key]


class Imported:
    """Generates code by llvmlite's Python files."""

    def __init__(self, folder: str) -> None:
        sys.path.append(folder.rpartition("/")[0])
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self._llvm = llvm
        self._version: str = llvmlite.__version__
        self._set: set = set()

    def _parse(self, text: bytes):  # noqa: ANN202 - typing takes long to import
        try:
            return self._llvm.parse_assembly(text.decode(), self._llvm.create_context())
        except RuntimeError as error:
            raise UnreadableError(str(error)) from error

    def generate(self, text: bytes, machine: dict, *, is_object: bool) -> bytes:
        """Return assembly or an object file; raises UnreadableError."""
        self._llvm.set_option("", _places(machine))
        module = self._parse(text)
        for option in options_for(machine, self._set, self._version):
            self._llvm.set_option("", option)
        unit = self._llvm.Target.from_triple(machine["triple"]).create_target_machine(
            cpu=machine["processor"], features=machine["features"], opt=machine["optimisation"],
            reloc="pic" if machine["jit"] else "default", codemodel="default", jit=machine["jit"],
        )  # fmt: skip
        return unit.emit_object(module) if is_object else unit.emit_assembly(module).encode()

    def verify(self, text: bytes) -> None:
        """Raise RuntimeError, or UnreadableError, for what LLVM's verifier refuses."""
        self._parse(text).verify()

    def types(self, text: bytes) -> dict:
        """Return the types of the named values of all functions."""
        return {
            value.name: str(value.type)
            for function in self._parse(text).functions
            for block in function.blocks
            for value in block.instructions
            if value.name
        }


class _Helper:
    def __init__(self, folder: str, version: str) -> None:
        self._folder = folder
        self._python: Imported | None = None
        self._maker = Direct(folder) if version.startswith(KNOWN) else self._imported()

    def _imported(self) -> Imported:
        if self._python is None:
            self._python = Imported(self._folder)
        return self._python

    def answer(self, number: int, want: str, machine: dict, text: bytes) -> tuple:
        try:
            if want == "verified":
                self._imported().verify(text)
                return number, b"", None
            if want == "types":
                return number, marshal.dumps(self._imported().types(text)), None
            made = self._maker.generate(text, machine, is_object=want == "object")
        except Exception as error:  # whatever it is, who asked is told
            return number, str(error), not isinstance(error, UnreadableError)
        return number, made, None


def _serve(folder: str, version: str) -> None:
    helper = _Helper(folder, version)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(8)) == 8:
        request = marshal.loads(source.read(int.from_bytes(head, "little")))
        answer = marshal.dumps(helper.answer(*request))
        target.write(len(answer).to_bytes(8, "little") + answer)
        target.flush()


#: LLVM goes as deep as expressions nest; pages of a stack that nobody touches cost nothing.
_STACKS = (512 << 20, 128 << 20, 32 << 20)


def _serve_deeply(folder: str, version: str) -> None:
    parent = os.getppid()
    over = _thread.allocate_lock()
    over.acquire()

    def work() -> None:
        try:
            _serve(folder, version)
        finally:
            over.release()

    for stack in _STACKS:
        try:
            _thread.stack_size(stack)
            _thread.start_new_thread(work, ())
        except (RuntimeError, ValueError):
            continue
        while not over.acquire(timeout=1.0):
            if os.getppid() != parent:  # it was killed, and nobody waits for what LLVM is at
                os._exit(1)
        return
    _serve(folder, version)


if __name__ == "__main__":
    _serve_deeply(*sys.argv[1:])
