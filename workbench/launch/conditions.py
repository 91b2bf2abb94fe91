"""Conditions over the integers of a launch, as plain data that runs in four places.

A *program* is a list of instructions over 64-bit integers: arguments by place, extents of the grid
by axis, arithmetic, comparisons, and *requirements*, which end it. What it gives are its results,
or nothing where a requirement does not hold. The same program is

    evaluated               `Program.evaluate`: the careful path; what the others are tested by
    written as Python text  `python_expressions`, `python_lines`: launchers made in Python
    in native launchers     in line (`llvm_values`), or by an interpreter (`llvm_interpreter`)
    written as C            `c_lines`: launchers that stand alone (runtime/c_launcher.py)

so that a fact of an argument, or whether 32 bits hold every index, is spelled once.

    >>> program = Builder()
    >>> n = program.argument(0)
    >>> p = program.finish(program.equal(program.mask(n, 15), 0))
    >>> p.evaluate([32], ()), python_expressions(p, ["n"])
    ([1], ['((n & 15) == 0)'])

Why no results of more than 64 bits are needed: native code may compute garbage (it wraps) only from
numbers that failed a requirement, and there the program has ended. Whoever builds a program
requires what it multiplies to be small first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def truncated(a: int, b: int) -> int:
    """Return a / b for a positive b, rounded towards zero."""
    return a // b if a >= 0 else -(-a // b)


#: name -> (meaning, Python text, LLVM text of each step (the last gives the value), C text)
#: `{0}`, `{1}`, `{2}` are the operands, `{a}`, `{b}` the values of earlier steps. What is computed
#: of garbage may be anything, but is defined in C, too.
_OPERATORS: dict[str, tuple[Callable[..., int], str, tuple[str, ...], str]] = {
    "add": (
        lambda a, b: a + b, "({0} + {1})", ("add i64 {0}, {1}",),
        "(int64_t)((uint64_t){0} + (uint64_t){1})",
    ),
    "sub": (
        lambda a, b: a - b, "({0} - {1})", ("sub i64 {0}, {1}",),
        "(int64_t)((uint64_t){0} - (uint64_t){1})",
    ),
    "mul": (
        lambda a, b: a * b, "({0} * {1})", ("mul i64 {0}, {1}",),
        "(int64_t)((uint64_t){0} * (uint64_t){1})",
    ),
    "mask": (lambda a, b: a & b, "({0} & {1})", ("and i64 {0}, {1}",), "{0} & {1}"),
    "join": (lambda a, b: a | b, "({0} | {1})", ("or i64 {0}, {1}",), "{0} | {1}"),
    "min": (
        min, "({0} if {0} < {1} else {1})",
        ("icmp slt i64 {0}, {1}", "select i1 {a}, i64 {0}, i64 {1}"), "{0} < {1} ? {0} : {1}",
    ),
    "max": (
        max, "({0} if {0} > {1} else {1})",
        ("icmp sgt i64 {0}, {1}", "select i1 {a}, i64 {0}, i64 {1}"), "{0} > {1} ? {0} : {1}",
    ),
    # By a positive number, towards zero.
    "quotient": (
        truncated, "({0} // {1} if {0} >= 0 else -(-{0} // {1}))", ("sdiv i64 {0}, {1}",),
        "{1} > 0 ? {0} / {1} : 0",
    ),
    # 2 to the power of a number between 0 and 62.
    "power": (
        lambda a: 1 << a, "(1 << {0})", ("shl i64 1, {0}",), "(int64_t)((uint64_t)1 << ({0} & 63))",
    ),
    "equal": (
        lambda a, b: int(a == b), "({0} == {1})", ("icmp eq i64 {0}, {1}", "zext i1 {a} to i64"),
        "{0} == {1}",
    ),
    "between": (
        lambda a, low, high: int(low <= a <= high), "({1} <= {0} <= {2})",
        ("icmp sge i64 {0}, {1}", "icmp sle i64 {0}, {2}", "and i1 {a}, {b}", "zext i1 {c} to i64"),
        "{1} <= {0} && {0} <= {2}",
    ),
    "select": (
        lambda a, b, c: b if a else c, "({1} if {0} else {2})",
        ("icmp ne i64 {0}, 0", "select i1 {a}, i64 {1}, i64 {2}"), "{0} ? {1} : {2}",
    ),
}  # fmt: skip

#: Instructions without inputs: their operand is a number, a place among the arguments, an axis.
_LEAVES = ("constant", "argument", "extent")
REQUIRE = "require"

#: Writes one LLVM instruction and returns the name of its value.
Emit = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions (operator, operands) in order; operands are numbers of earlier instructions.

    `require` has one operand, which must not be 0; `results` are numbers of instructions.
    """

    code: tuple[tuple[str, tuple[int, ...]], ...]
    results: tuple[int, ...] = ()

    @property
    def arguments(self) -> tuple[int, ...]:
        """The places of the arguments that the program reads."""
        return tuple(sorted({operands[0] for name, operands in self.code if name == "argument"}))

    @property
    def constant(self) -> list[int] | None:
        """The results of a program that reads nothing and requires nothing, else None."""
        if any(name in ("argument", "extent", REQUIRE) for name, _ in self.code):
            return None
        return self.evaluate((), ())

    def evaluate(self, arguments: Sequence[int], grid: Sequence[int]) -> list[int] | None:
        """Return the results for the integers and grid of a launch, None where it requires more."""
        found: list[int] = []
        given = {"argument": arguments, "extent": grid}
        for name, operands in self.code:
            if name == "constant":
                found.append(operands[0])
            elif name in given:
                found.append(int(given[name][operands[0]]))
            elif name == REQUIRE:
                if not found[operands[0]]:
                    return None
                found.append(1)
            else:
                found.append(_OPERATORS[name][0](*(found[n] for n in operands)))
        return [found[n] for n in self.results]


def joined(first: Program, second: Program) -> Program:
    """Return a program that requires what both do."""
    start = len(first.code)
    moved = [
        (name, operands if name in _LEAVES else tuple(start + n for n in operands))
        for name, operands in second.code
    ]
    return Program((*first.code, *moved))


class Builder:
    """Builds a program; equal instructions are written once, and constants are folded."""

    def __init__(self) -> None:
        self.code: list[tuple[str, tuple[int, ...]]] = []
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}

    def finish(self, *results: int) -> Program:
        """Return the program with these results, without what they do not need."""
        needed = set(results)
        for number in range(len(self.code) - 1, -1, -1):
            name, operands = self.code[number]
            if (number in needed or name == REQUIRE) and name not in _LEAVES:
                needed |= {number, *operands}
        kept = sorted(needed)
        place = {number: n for n, number in enumerate(kept)}
        code = [
            (name, operands if name in _LEAVES else tuple(place[n] for n in operands))
            for name, operands in (self.code[number] for number in kept)
        ]
        return Program(tuple(code), tuple(place[n] for n in results))

    def constant(self, value: int) -> int:
        """A number."""
        return self._put("constant", value)

    def argument(self, place: int) -> int:
        """An integer argument, or the address of an array."""
        return self._put("argument", place)

    def extent(self, axis: int) -> int:
        """The grid's size along an axis."""
        return self._put("extent", axis)

    def value(self, number: int) -> int | None:
        """Return the value of an instruction that is a constant."""
        name, operands = self.code[number]
        return operands[0] if name == "constant" else None

    def apply(self, name: str, *operands: int) -> int:
        """An operator on earlier instructions."""
        values = [self.value(n) for n in operands]
        if None not in values:
            return self.constant(_OPERATORS[name][0](*values))
        return self._put(name, *operands)

    def mask(self, a: int, bits: int) -> int:
        """The bits of a number that a constant has."""
        return self.apply("mask", a, self.constant(bits))

    def equal(self, a: int, value: int) -> int:
        """Whether a number is a constant: 1 or 0."""
        return self.apply("equal", a, self.constant(value))

    def between(self, a: int, low: int, high: int) -> int:
        """Whether a number lies between two constants, both included: 1 or 0."""
        return self.apply("between", a, self.constant(low), self.constant(high))

    def require(self, a: int) -> None:
        """End the program here unless a number is other than 0."""
        if not self.value(a):
            self._put(REQUIRE, a)

    def _put(self, name: str, *operands: int) -> int:
        instruction = name, operands
        if instruction not in self._known:
            self._known[instruction] = len(self.code)
            self.code.append(instruction)
        return self._known[instruction]


# -- Python -----------------------------------------------------------------------------------
def python_expressions(program: Program, names: Sequence[str]) -> list[str]:
    """Return the results as expressions over the names of the arguments.

    What the program requires is not asked: Python's numbers hold all that it computes.
    """
    text: list[str] = []
    for name, operands in program.code:
        text.append("1" if name == REQUIRE else _python(name, operands, text, names))
    return [text[n] for n in program.results]


def python_lines(program: Program, names: Sequence[str], indent: str, otherwise: str) -> list[str]:
    """Return lines that do `otherwise` where a requirement does not hold, and go on where all do.

    `names` are those of the arguments by place; the grid is `x`, `y`, `z`. Locals that the lines
    make begin with `_c`.
    """
    uses = [0] * len(program.code)
    for name, operands in program.code:
        if name not in _LEAVES:
            for n in operands:  # these texts name their operands twice
                uses[n] += 2 if name in ("min", "max", "quotient") else 1
    text: list[str] = []
    lines: list[str] = []
    for number, (name, operands) in enumerate(program.code):
        if name == REQUIRE:
            lines += [f"{indent}if not {text[operands[0]]}:", f"{indent}    {otherwise}"]
            text.append("1")
            continue
        words = _python(name, operands, text, names)
        if uses[number] > 1 and name not in _LEAVES:
            lines.append(f"{indent}_c{number} = {words}")
            words = f"_c{number}"
        text.append(words)
    return lines


def _python(name: str, operands: tuple[int, ...], text: Sequence[str], names: Sequence[str]) -> str:
    if name == "constant":
        return str(operands[0]) if operands[0] >= 0 else f"({operands[0]})"
    if name == "argument":
        return names[operands[0]]
    if name == "extent":
        return "xyz"[operands[0]]
    return _OPERATORS[name][1].format(*(text[n] for n in operands))


# -- C ----------------------------------------------------------------------------------------
def c_lines(
    program: Program,
    names: Sequence[str],
    grid: Sequence[str],
    otherwise: str,
    *,
    prefix: str = "c",
) -> tuple[list[str], list[str]]:
    """Return statements that do `otherwise` where a requirement does not hold, and the results.

    `names` are the `int64_t` of the arguments by place, `grid` those of its extents; each value is
    a constant named by `prefix` and a number.
    """
    text: list[str] = []
    lines: list[str] = []
    for number, (name, operands) in enumerate(program.code):
        if name == "constant":
            text.append(_c_constant(operands[0]))
        elif name in _LEAVES:
            text.append((names if name == "argument" else grid)[operands[0]])
        elif name == REQUIRE:
            lines += [f"if (!{text[operands[0]]})", f"    {otherwise}"]
            text.append("1")
        else:
            words = _OPERATORS[name][3].format(*(text[n] for n in operands))
            lines.append(f"const int64_t {prefix}{number} = {words};")
            text.append(f"{prefix}{number}")
    return lines, [text[n] for n in program.results]


def _c_constant(value: int) -> str:
    value = _wrapped(value)
    if value == -(1 << 63):
        return "INT64_MIN"
    return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"


# -- LLVM -------------------------------------------------------------------------------------
def llvm_values(program: Program, emit: Emit, arguments: Sequence[str]) -> list[str]:
    """Write the instructions in line and return the names of the results, all i64.

    Args:
        program: what to write; it requires nothing and reads no grid.
        emit: writes one instruction.
        arguments: the i64 values of the arguments.
    """
    found: list[str] = []
    for name, operands in program.code:
        if name == "constant":
            found.append(str(_wrapped(operands[0])))
        elif name == "argument":
            found.append(arguments[operands[0]])
        else:
            found.append(_steps(_OPERATORS[name][2], [found[n] for n in operands], emit))
    return [found[n] for n in program.results]


def _steps(template: Sequence[str], inputs: Sequence[str], emit: Emit) -> str:
    """Write the steps of one operator; return the name of its value."""
    steps: dict[str, str] = {}
    value = ""
    for letter, step in zip("abcd", template, strict=False):
        value = steps[letter] = emit(step.format(*inputs, **steps))
    return value


def _wrapped(value: int) -> int:
    """Return a constant as 64 bits hold it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


#: The symbols of the interpreters: `i64 holds(ptr program, ptr arguments, ptr grid)`, and
#: `i64 computed(ptr program, ptr arguments, ptr grid, ptr results)`, which gives results as well.
INTERPRETER, COMPUTER = "holds", "computed"
_OPCODES = {name: n for n, name in enumerate((*_LEAVES, REQUIRE, *_OPERATORS))}


def encoded(program: Program) -> list[int]:
    """Return a program as words for native code.

    How many instructions, then four words of each; how many results, then the number of each.
    """
    words = [len(program.code)]
    for name, operands in program.code:
        filled = [*map(_wrapped, operands), 0, 0, 0]
        words += [_OPCODES[name], *filled[:3]]
    return [*words, len(program.results), *program.results]


_RESULTS = """\
  %all = mul i64 %count, 4
  %after = add i64 %all, 1
  %found = getelementptr i64, ptr %program, i64 %after
  %wanted = load i64, ptr %found
  br label %each
each:
  %n = phi i64 [ 0, %yes ], [ %n1, %one ]
  %left = icmp slt i64 %n, %wanted
  br i1 %left, label %one, label %end
one:
  %n1 = add i64 %n, 1
  %which_at = getelementptr i64, ptr %found, i64 %n1
  %which = load i64, ptr %which_at
  %from = getelementptr i64, ptr %values, i64 %which
  %given = load i64, ptr %from
  %to = getelementptr i64, ptr %results, i64 %n
  store i64 %given, ptr %to
  br label %each
end:
  ret i64 1"""


def llvm_interpreter(symbol: str = INTERPRETER) -> str:
    """Return a function that runs encoded programs: 1 where all requirements hold, else 0.

    `arguments`, `grid` and `results` (of the COMPUTER alone) point to 64-bit integers. Written from
    the same table as everything else; a program costs a few nanoseconds an instruction and nothing
    to make.
    """
    lines: list[str] = []

    def emit(text: str) -> str:
        lines.append(f"  %v{len(lines)} = {text}")
        return f"%v{len(lines) - 1}"

    def operand(place: int) -> str:
        where = emit(f"getelementptr i64, ptr %instruction, i64 {place + 1}")
        return emit(f"load i64, ptr {where}")

    def item(base: str, index: str) -> str:
        return emit(f"load i64, ptr {emit(f'getelementptr i64, ptr {base}, i64 {index}')}")

    def give(value: str) -> None:
        lines.append(f"  store i64 {value}, ptr %result")
        lines.append("  br label %next")

    for name, number in _OPCODES.items():
        lines.append(f"case{number}:")
        if name == "constant":
            give(operand(0))
        elif name in _LEAVES:
            give(item("%arguments" if name == "argument" else "%grid", operand(0)))
        elif name == REQUIRE:
            holds = emit(f"icmp ne i64 {item('%values', operand(0))}, 0")
            lines.append(f"  br i1 {holds}, label %next, label %no")
        else:
            template = _OPERATORS[name][2]
            count = sum(f"{{{n}}}" in "".join(template) for n in range(3))
            give(_steps(template, [item("%values", operand(n)) for n in range(count)], emit))
    cases = " ".join(f"i64 {n}, label %case{n}" for n in _OPCODES.values())
    body = "\n".join(lines)
    more, end = (", ptr %results", _RESULTS) if symbol == COMPUTER else ("", "  ret i64 1")
    return f"""
define i64 @{symbol}(ptr %program, ptr %arguments, ptr %grid{more}) {{
entry:
  %count = load i64, ptr %program
  %values = alloca i64, i64 %count, align 16
  br label %head
head:
  %number = phi i64 [ 0, %entry ], [ %following, %next ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %run, label %yes
run:
  %skipped = mul i64 %number, 4
  %offset = add i64 %skipped, 1
  %instruction = getelementptr i64, ptr %program, i64 %offset
  %result = getelementptr i64, ptr %values, i64 %number
  %code = load i64, ptr %instruction
  switch i64 %code, label %no [ {cases} ]
{body}
next:
  %following = add i64 %number, 1
  br label %head
yes:
{end}
no:
  ret i64 0
}}
"""
