"""Turns the IR example in an op's docstring into a whole kernel that loads its operands and stores
its results, so that the same text is parsed, verified, printed, interpreted and compiled."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import ops
from workbench.ir import MNEMONICS, Module, Op, Pointer, Scalar, Tile, Type, parse_module
from workbench.ops.numbers import encode, memory_dtype

# Types of the values that an example reads, by op; elementwise rows have their own rule below.
OPERANDS: dict[str, dict[str, str]] = {
    "tile.constant": {},
    "tile.iota": {},
    "tile.select": {"%0": "tile<4xi1>", "%1": "tile<4xf32>", "%2": "tile<4xf32>"},
    "tile.add_pointer": {"%0": "tile<4xptr<f32>>", "%1": "tile<4xindex>"},
    "tile.load": {"%0": "tile<4xptr<f32>>", "%1": "tile<4xi1>", "%2": "tile<4xf32>"},
    "tile.store": {"%0": "tile<4xptr<f32>>", "%1": "tile<4xf32>", "%2": "tile<4xi1>"},
    "tile.check_access": {"%0": "tile<4xptr<f32>>", "%2": "tile<4xi1>"},
    "tile.yield": {"%0": "f32"},
    "tile.return": {},
    "tile.for": {"%0": "index", "%1": "index", "%2": "index", "%init": "f32"},
    "tile.while": {"%0": "index", "%go": "i1", "%next": "index"},
    "tile.if": {"%0": "i1", "%a": "f32", "%b": "f32"},
    "tile.map": {"%0": "tile<4xf32>"},
    "tile.reduce": {"%0": "tile<4xf32>"},
    "tile.scan": {"%0": "tile<4xf32>"},
    "tile.cast": {"%0": "tile<4xf32>"},
    "tile.bitcast": {"%0": "tile<4xf32>"},
    "tile.atomic": {"%0": "tile<4xptr<f32>>", "%1": "tile<4xf32>"},
    "tile.atomic_cas": {"%0": "ptr<i32>", "%1": "i32", "%2": "i32"},
    "gpu.convert_layout": {"%0": "tile<2xf32>"},
    "tile.dot": {"%0": "tile<16x4xf32>", "%1": "tile<4x8xf32>", "%2": "tile<16x8xf32>"},
    "tile.program_id": {},
    "tile.num_programs": {},
    "tile.promise": {"%0": "tile<4xindex>"},
    "tile.assume": {"%0": "i1"},
    "tile.barrier": {},
    "tile.grid_dependency_wait": {},
    "tile.launch_dependents": {},
    "tile.splat": {"%0": "f32"},
    "tile.broadcast": {"%0": "tile<1x8xf32>"},
    "tile.expand_dims": {"%0": "tile<4xf32>"},
    "tile.reshape": {"%0": "tile<8xf32>"},
    "tile.transpose": {"%0": "tile<4x8xf32>"},
    "tile.join": {"%0": "tile<4xf32>", "%1": "tile<4xf32>"},
    "tile.split": {"%0": "tile<4x2xf32>"},
    "tile.concatenate": {"%0": "tile<4xf32>", "%1": "tile<4xf32>"},
    "tile.inline_asm": {"%0": "tile<4xf32>"},
    "tile.print": {"%0": "f32"},
    "tile.assert": {"%0": "i1"},
    "tile.sort": {"%0": "tile<4xi32>"},
    "tile.merge": {"%0": "tile<4xi32>"},
    "tile.gather": {"%0": "tile<8xf32>", "%1": "tile<4xi32>"},
    "tile.histogram": {"%0": "tile<64xi32>", "%1": "tile<64xi1>"},
}
_IR_LINE = re.compile(r"\s*(%[\w.]+(, %[\w.]+)* = )?(tile|gpu)\.\w+( [\[%]|$)|\s*%\w+ = tile")
_NUMBERS = {"%0": 0, "%1": 3, "%2": 1}


@dataclass(frozen=True)
class Example:
    """A kernel made of one example, and the arguments to run it with."""

    name: str
    text: str

    def module(self) -> Module:
        return parse_module(self.text)

    def arguments(self, seed: int = 1) -> list[Any]:
        """Return fresh arguments: inputs are small numbers, outputs are zeros."""
        random = np.random.default_rng(seed)
        found: list[Any] = []
        for parameter in self.module().parameters:
            kind = parameter.value.type
            if isinstance(kind, Pointer):
                element = kind.pointee
                assert isinstance(element, Scalar)
                found.append(sample(element, 256, random))
                if parameter.name.startswith("r"):
                    found[-1][:] = 0
            else:
                found.append(self._number(parameter.name, kind))
        return found

    def _number(self, name: str, kind: Type) -> Any:
        if self.name == "tile.while" and name == "qgo":
            return 0
        assert isinstance(kind, Scalar)
        return 1.5 if kind.is_float else _NUMBERS.get("%" + name[1:], 1)


def sample(element: Scalar, count: int, random: np.random.Generator) -> np.ndarray:
    """Return memory holding `count` small numbers of a type, positive and negative."""
    if element.kind == "bool":
        return random.integers(0, 2, count).astype(np.uint8)
    if element.is_float:
        values = random.uniform(0.25, 3.0, count) * random.choice([-1.0, 1.0], count)
        return np.array(encode(values.astype(np.float32), element), memory_dtype(element))
    low = 0 if element.kind == "uint" else -20
    values = random.integers(low, 20, count)
    return values.astype(memory_dtype(element))


def _docstring_example(op: type[Op]) -> list[str]:
    """Return the IR lines at the end of the docstring."""
    lines = inspect.cleandoc(op.__doc__ or "").splitlines()
    starts = (i for i, line in enumerate(lines) if _IR_LINE.match(line))
    return lines[next(starts) :]


def _shape_and_element(text: str) -> tuple[tuple[int, ...], str]:
    match = re.fullmatch(r"tile<((?:\d+x)+)(.*)>", text)
    if match is None:
        return (), text
    return tuple(int(n) for n in match.group(1).split("x")[:-1]), match.group(2)


def load_operand(name: str, written: str) -> tuple[str, list[str]]:
    """Return the kernel parameter and the ops that give the value `name` of a type."""
    shape, element = _shape_and_element(written)
    plain = name[1:]
    dims = "x".join(map(str, shape))
    if not shape:
        if element == "index":
            return f"%q{plain}: i64", [f"{name} = tile.cast %q{plain} {{to = index}} : index"]
        if element.startswith("ptr<"):
            zero = f"%z{plain} = tile.constant {{value = 0, type = index}} : index"
            moved = f"{name} = tile.add_pointer %q{plain}, %z{plain} : {element}"
            return f"%q{plain}: {element}", [zero, moved]
        return f"%q{plain}: {element}", [
            f"{name} = tile.bitcast %q{plain} {{to = {element}}} : {element}"
        ]
    pointee = element[4:-1] if element.startswith("ptr<") else element
    memory = "i64" if pointee == "index" else pointee
    lines = places(plain, shape, memory, f"%q{plain}")
    if element.startswith("ptr<"):
        lines[-1] = lines[-1].replace(f"%at_{plain}", name, 1)
    else:
        target = f"%raw_{plain}" if pointee == "index" else name
        lines.append(f"{target} = tile.load %at_{plain} : tile<{dims}x{memory}>")
        if pointee == "index":
            lines.append(f"{name} = tile.cast {target} {{to = index}} : tile<{dims}xindex>")
    return f"%q{plain}: ptr<{memory}>", lines


def places(name: str, shape: tuple[int, ...], memory: str, pointer: str) -> list[str]:
    """Return ops that make `%at_NAME`, pointers to consecutive elements in row-major order."""
    size = int(np.prod(shape))
    dims = "x".join(map(str, shape))
    index, pointers = f"tile<{dims}xindex>", f"tile<{dims}xptr<{memory}>>"
    flat = f"tile<{size}xindex>"
    return [
        f"%i_{name} = tile.iota {{start = 0, type = {flat}}} : {flat}",
        f"%s_{name} = tile.reshape %i_{name} {{shape = {shape}}} : {index}",
        f"%b_{name} = tile.splat {pointer} {{shape = {shape}}} : {pointers}",
        f"%at_{name} = tile.add_pointer %b_{name}, %s_{name} : {pointers}",
    ]


def store_result(name: str, written: str) -> tuple[str | None, list[str]]:
    """Return the parameter and the ops that store the value `name`; nothing for pointers."""
    shape, element = _shape_and_element(re.sub(r", linear<.*>>$", ">", written))
    if element.startswith("ptr"):
        return None, []
    plain = name[1:]
    dims = "x".join(map(str, shape))
    memory = "i64" if element == "index" else element
    lines = []
    if element == "index":
        to = f"tile<{dims}xi64>" if shape else "i64"
        lines.append(f"%n_{plain} = tile.cast {name} {{to = i64}} : {to}")
        name = f"%n_{plain}"
    if not shape:
        return f"%r{plain}: ptr<{memory}>", [*lines, f"tile.store %r{plain}, {name}"]
    lines += places(f"r{plain}", shape, memory, f"%r{plain}")
    return f"%r{plain}: ptr<{memory}>", [*lines, f"tile.store %at_r{plain}, {name}"]


def wrap(name: str, lines: list[str], operands: dict[str, str]) -> Example:
    """Return the kernel that loads operands, runs the lines, and stores what they define."""
    parameters, before, after = [], [], []
    for operand, written in operands.items():
        parameter, ops_text = load_operand(operand, written)
        parameters.append(parameter)
        before += ops_text
    body = "\n".join(lines)
    first, last = lines[0], lines[-1]
    match = re.match(r"((?:%\w+(?:, )?)+) = ", first)
    if match:
        types = last.rsplit(" : ", 1)[1]
        names, kinds = match.group(1).split(", "), re.split(r",\s(?=tile|f32|i)", types)
        for result, written in zip(names, kinds, strict=True):
            parameter, ops_text = store_result(result, written)
            if parameter:
                parameters.append(parameter)
                after += ops_text
    text = "\n".join(
        [f"kernel @example({', '.join(parameters)}) {{", *before, body, *after, "tile.return", "}"]
    )
    return Example(name, text + "\n")


def elementwise_example(function: str, element: str, shape: str = "4x") -> Example:
    """Return a kernel of one elementwise function on tiles of a type."""
    row = ops.FUNCTIONS[function]
    operands = {f"%{i}": f"tile<{shape}{element}>" for i in range(row.arity)}
    result = f"tile<{shape}{'i1' if row.compares else element}>"
    inputs = ", ".join(operands)
    return wrap(f"tile.{function}", [f"%9 = tile.{function} [{inputs}] : {result}"], operands)


def all_examples() -> list[Example]:
    """Return one kernel per op: each docstring's own, and each row of the elementwise table."""
    found = []
    for name, op in MNEMONICS.items():
        if not op.__module__.startswith("workbench.ops."):
            continue  # a target's own op: its tests are there
        if name in op.family:
            function = name.removeprefix("tile.")
            takes = ops.FUNCTIONS[function].takes
            found.append(elementwise_example(function, "i32" if takes == "integer" else "f32"))
            continue
        lines = _docstring_example(op)
        if name == "tile.yield":
            lines = ["%1 = tile.if %c {", *lines, "} {", *lines, "} : f32"]
            found.append(wrap(name, lines, {"%c": "i1", **OPERANDS[name]}))
        elif name == "tile.return":
            found.append(Example(name, "kernel @example() {\n" + "\n".join(lines) + "\n}\n"))
        else:
            found.append(wrap(name, lines, OPERANDS[name]))
    return found


__all__ = ["Example", "Tile", "all_examples", "elementwise_example", "sample", "wrap"]
