"""The text form of a module, and which op each row of it stands for.

    #L0 = linear<...>
    kernel @add(%x_ptr: ptr<f32> {divisible = 16}, %n: i32) {num_warps = 4} {
      %pid = tile.program_id {axis = 0} : index
      %x = tile.load %p mask %m : tile<1024xf32>
      %acc = tile.for %lo, %hi, %step, [%zero] {
      ^(%k: index, %acc.1: tile<4xf32>):
        tile.yield [%acc.2]
      } : tile<4xf32>
      tile.return
    }

Required operands stand first, optional ones after their field's name, lists in brackets,
attributes that differ from their default in braces, regions in braces with their arguments
behind `^`, result types after the colon. parser.py reads all of it back.
"""

from __future__ import annotations

from typing import Any, cast

from workbench.ir.module import KernelParameter, Module
from workbench.ir.operation import Block, Op, Value
from workbench.ir.types import Shared, Tile, Type, format_type
from workbench.layouts import LinearLayout


def print_module(module: Module) -> str:
    """Return the text of a module."""
    return "\n".join(text for text, _ in print_rows(module)) + "\n"


def print_rows(module: Module) -> list[tuple[str, int]]:
    """Return each row's text and the id of the op it belongs to (0: of none)."""
    return _Printer(module).rows


def value_names(module: Module) -> dict[Value, str]:
    """Return the name of each value in the text of a module, without its %."""
    return {value: name.removeprefix("%") for value, name in _Printer(module).names.items()}


def layout_names(module: Module) -> dict[LinearLayout, str]:
    """Return the name of each layout as the text form gives it (`#L0`, `#S3`)."""
    return _Printer(module).alias


def base_name(hint: str) -> str:
    """Return a name without the numbers that tell values of one name apart (`x.3`: `x`)."""
    while (dot := hint.rfind(".")) > 0 and hint[dot + 1 :].isdigit():
        hint = hint[:dot]
    return hint


class _Printer:
    def __init__(self, module: Module) -> None:
        self.rows: list[tuple[str, int]] = []
        self.names: dict[Value, str] = {}
        self.used: dict[str, int] = {}
        self.taken: set[str] = set()
        self.alias: dict[LinearLayout, str] = {}
        body: list[tuple[str, int]] = []
        self.rows = body
        parameters = ", ".join(map(self.parameter, module.parameters))
        head = f"kernel @{module.name}({parameters})"
        body.append((head + self.attributes(module.attributes) + " {", 0))
        self.block(module.body, 1)
        body.append(("}", 0))
        aliases = [(f"{name} = {layout}", 0) for layout, name in self.alias.items()]
        self.rows = aliases + body

    def parameter(self, parameter: KernelParameter) -> str:
        name = self.name(parameter.value, parameter.name)
        facts: dict[str, Any] = {}
        if parameter.divisible != 1:
            facts["divisible"] = parameter.divisible
        if parameter.low is not None:
            facts["low"] = parameter.low
        if parameter.high is not None:
            facts["high"] = parameter.high
        if parameter.noalias:
            facts["noalias"] = True
        return f"{name}: {self.type(parameter.value.type)}" + self.attributes(facts)

    def name(self, value: Value, hint: str = "") -> str:
        """Return the name of a value; `hint` is a name that it must have."""
        known = self.names.get(value)
        if known is None:
            base = hint or base_name(value.hint)
            known = base
            while not known or known in self.taken:
                count = self.used.get(base, 0)
                self.used[base] = count + 1
                known = f"{base}.{count}" if base and count else base or str(count)
            self.taken.add(known)
            self.names[value] = known = f"%{known}"
        return known

    def type(self, type: Type) -> str:
        if isinstance(type, Tile | Shared) and type.layout is not None:
            self.layout(type.layout)
        return format_type(type, self.alias)

    def layout(self, layout: LinearLayout) -> str:
        known = self.alias.get(layout)
        if known is None:
            known = f"#{'S' if 'offset' in layout.bases else 'L'}{len(self.alias)}"
            self.alias[layout] = known
        return known

    def attribute(self, value: object) -> str:
        if isinstance(value, str):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        if isinstance(value, Type):
            return self.type(value)
        if isinstance(value, LinearLayout):
            return self.layout(value)
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            inner = ", ".join(map(self.attribute, items))
            return f"({inner}{',' if len(items) == 1 else ''})"
        return repr(value)

    def attributes(self, values: dict[str, Any]) -> str:
        if not values:
            return ""
        return " {" + ", ".join(f"{k} = {self.attribute(v)}" for k, v in values.items()) + "}"

    def block(self, block: Block, depth: int) -> None:
        if block.arguments:
            words = ", ".join(f"{self.name(a)}: {self.type(a.type)}" for a in block.arguments)
            self.rows.append(("  " * (depth - 1) + f"^({words}):", 0))
        for op in block.ops:
            self.op(op, depth)

    def op(self, op: Op, depth: int) -> None:
        text = op.name + self.fields(op)
        indent = "  " * depth
        row = len(self.rows)
        self.rows.append(("", op.id))
        for i, region in enumerate(op.regions):
            if i:
                self.rows.append((indent + "} {", op.id))
            self.block(region, depth + 1)
        # Named after the regions, so that numbers grow from row to row.
        results = ", ".join(self.name(v) for v in op.results)
        types = ", ".join(self.type(v.type) for v in op.results)
        head = indent + (f"{results} = " if results else "") + text
        tail = f" : {types}" if types else ""
        if op.regions:
            self.rows[row] = (head + " {", op.id)
            self.rows.append((indent + "}" + tail, op.id))
        else:
            self.rows[row] = (head + tail, op.id)

    def fields(self, op: Op) -> str:
        """Return what stands between an op's name and its regions."""
        words: list[str] = []
        later: list[str] = []
        values: dict[str, Any] = {}
        for spec in op.fields:
            found = op.__dict__[spec.name]
            if spec.role == "operand":
                words.append(self.name(found))
            elif spec.role == "operands" and (found or spec.required or not words):
                words.append("[" + ", ".join(self.name(v) for v in found) + "]")
            elif spec.role == "optional" and found is not None:
                later.append(f" {spec.name} {self.name(found)}")
            elif spec.role == "attribute" and (spec.required or found != spec.default):
                values[spec.name] = found
        for name in op.family.get(op.name, {}):
            del values[name]
        operands = " " + ", ".join(words) if words else ""
        return operands + "".join(later) + self.attributes(values)
