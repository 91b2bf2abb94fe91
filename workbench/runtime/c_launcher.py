"""Writes a compiled kernel as C that needs neither Python nor CUDA's headers to build.

    cc add.c -o add && ./add

The file holds the code that the driver loads, and everything that a launch decides in Python: which
of a kernel's twins may run (32-bit or exact indices, with or without tensor maps), how many blocks
to start, the tensor maps themselves. The driver is opened when the program runs, so that it builds
anywhere and can say what is missing where it does not run. `main` repeats the launch that was
recorded, on other numbers; `-DNO_MAIN` leaves it out, and a header declares the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from workbench.launch.abi import Parameter
from workbench.launch.conditions import Builder, Program, c_lines, joined
from workbench.launch.grids import GPU_LIMITS, MOST_NUMBERED
from workbench.launch.hulls import asked_of_values
from workbench.launch.index_width import width_program
from workbench.launch.tensor_maps import program_of
from workbench.source import OptionError
from workbench.source.arguments import Argument
from workbench.targets.nvidia.map_words import MAKER, WALKED_MAKER, MapWords

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel

#: Types of run-time values in C; a launch passes floats of 16 bits as fp32.
_TYPES = {
    "i1": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "float", "bf16": "float", "f32": "float", "f64": "double",
}  # fmt: skip
#: Bits of exponent and mantissa of the floats that an array may hold; any other type is integers.
_FLOATS = {
    "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "f8e4m3": (4, 3),
    "f8e4m3fn": (4, 3), "f8e5m2": (5, 2),
}  # fmt: skip
#: More than any index of a launch.
_FAR = 1 << 62
#: More numbers than these are not written into a file: `main` draws some between their extremes.
MOST_WRITTEN = 4096


@dataclass(frozen=True, slots=True)
class SampleArray:
    """An array of a launch: how many elements lie behind its address, and what integers it holds.

    `like` names an argument before it that has the same address.
    """

    count: int
    itemsize: int
    values: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    like: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A launch that `main` repeats: its grid, its numbers and arrays by the paths of parameters."""

    grid: tuple[int, int, int]
    scalars: Mapping[str, int | float] = field(default_factory=dict[str, "int | float"])
    arrays: Mapping[str, SampleArray] = field(default_factory=dict[str, SampleArray])


def launcher(kernel: CompiledKernel, comment: str, sample: Sample | None = None) -> str:
    """Return the C file; `comment` says what was compiled.

    Raises OptionError K804 for a kernel that is not of a GPU.
    """
    found = _twins(kernel)
    twins = [twin for twin, _ in found]
    name = _identifier(kernel.name)
    declared = _declared(kernel)
    bodies = [
        _Twin(twin, number, len(twins), declared, _width(kernel) if narrow else None).text()
        for number, (twin, narrow) in enumerate(found)
    ]
    values = "".join(f", {word}" for _, word in declared.values())
    return Template(_template()).substitute(
        name=name,
        comment=_commented(comment),
        arguments="\n".join(_said(kernel)),
        target=kernel.target,
        images="\n\n".join(_image(twin, number) for number, twin in enumerate(twins)),
        count=len(twins),
        rows="\n".join(_row(twin, number) for number, twin in enumerate(twins)),
        prototype=_prototype(kernel),
        requirements=_indented(_requirements(kernel), 1),
        launches="\n\n".join(bodies),
        calls="\n".join(
            f"    if (status == NOT_FOR_THIS)\n"
            f"        status = launch_{number}(stream, x, y, z{values});"
            for number in range(len(twins))
        ),
        main=_main(kernel, sample),
    )


def header(kernel: CompiledKernel, comment: str) -> str:
    """Return the header of what `launcher` writes with -DNO_MAIN."""
    _twins(kernel)
    name = _identifier(kernel.name)
    said = "\n".join(_said(kernel))
    return f"""/* {_commented(comment)}
 *
 * Declares what the .c file beside it defines: cc -c -DNO_MAIN {name}.c
 *
{said}
 */
#ifndef {name.upper()}_LAUNCHER_H
#define {name.upper()}_LAUNCHER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Loads the code into the current context, or into the primary one of a device; not on two threads
 * at a time. Both functions return 0 or a code for {name}_error: mostly one of the driver's. */
int {name}_load(int device);

/* Starts the kernel on a CUstream (NULL: the default one). Loads the code if nobody has. */
{_prototype(kernel)};

/* Says what a code means. */
const char *{name}_error(int code);

#ifdef __cplusplus
}}
#endif

#endif
"""


# -- which code may run -----------------------------------------------------------------------
def _twins(kernel: CompiledKernel) -> list[tuple[CompiledKernel, bool]]:
    """Return the codes of a kernel, each of which runs what those before it cannot.

    With each goes whether its indices are narrower than a launch may want.
    """
    if not kernel.target.startswith("sm_"):
        raise OptionError(
            f"{kernel.name} was compiled for {kernel.target}, which C has no launcher for",
            hint=f"compile it for a GPU, which need not be there: {kernel.name}@sm_90a",
            code="K804",
        )
    override = kernel.signature.override
    alone = override is not None and override.stage != "tile"
    narrow = kernel.launch.narrow_index and kernel.index_program is not None
    found: list[tuple[CompiledKernel, bool]] = []
    for one in [kernel] if alone or not narrow else [kernel, kernel.twin()]:
        found.append((one, narrow and one is kernel))
        choosy = one.launch.made or one.launch.extra.get("asked") is not None
        plain = one.without_maps() if choosy else None
        if plain is not None:
            found.append((plain, narrow and one is kernel))
    return found


def _width(kernel: CompiledKernel) -> Program:
    """Return what the 32-bit indices of a kernel require of the values that its code receives."""
    words = enumerate(kernel.launch.parameters)
    places = tuple((name, n, False) for n, (name, word) in words if word[0] in "iu")
    known = tuple(
        (name, fact.value) for name, fact in kernel.signature.arguments
        if fact.is_constant and type(fact.value) is int
    )  # fmt: skip
    width = width_program(kernel.index_program, places, known)
    build = Builder()  # of negative numbers the program says nothing
    for place in width.arguments:
        build.require(build.between(build.argument(place), 0, _FAR))
    return joined(build.finish(), width)


class _Twin:
    """Writes the function that launches one of the codes."""

    def __init__(
        self, kernel: CompiledKernel, number: int, of: int, declared: Mapping[str, tuple[str, str]],
        width: Program | None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.number = number
        self.of = of
        self.declared = declared
        self.width = width
        self.lines: list[str] = []
        self.names = [word for _, word in declared.values()]

    def text(self) -> str:
        launch = self.kernel.launch
        for program, prefix in ((self.width, "w"), (asked_of_values(self.kernel), "q")):
            if program is not None:
                self._add(program, prefix)
        blocks = "(unsigned)x, (unsigned)y, (unsigned)z"
        if launch.persistent:
            self.lines += [
                f"if (x * y * z > {MOST_NUMBERED})",
                "    return NOT_FOR_THIS;",
                f"const int64_t blocks = blocks_for(x * y * z, codes[{self.number}].most_blocks, "
                f"{launch.most_rounds}, {launch.cluster});",
            ]
            blocks = "(unsigned)blocks, 1, 1"
        if launch.drawn:
            raise OptionError(
                f"blocks of {self.kernel.name} draw their programs, from counters that C does not "
                "keep",
                hint=f"save one without: {self.kernel.name}@tickets=False",
                code="K804",
            )
        made = launch.made or [Parameter((n,)) for n in range(len(self.names))]
        pointers = [self._parameter(n, parameter) for n, parameter in enumerate(made)]
        starts = "launch_with" if launch.attribute else "driver.launch"
        more = f"{launch.attribute}, " if launch.attribute else ""
        room = " " * len(f"return {starts}(")
        self.lines += [
            f"void *parameters[] = {{{', '.join([*pointers, 'NULL'])}}};",
            f"return {starts}({more}codes[{self.number}].function, {blocks},",
            f"{room}{launch.threads}, 1, 1, {launch.dynamic_shared_bytes}, stream,",
            f"{room}parameters, NULL);",
        ]
        read = sorted({int(n) for line in self.lines for n in re.findall(r"\ba(\d+)\b", line)})
        numbers = [f"const int64_t a{n} = (int64_t){self.names[n]};" for n in read]
        values = [f"{kind} {name}" for kind, name in self.declared.values()]
        words = ["void *stream", "int64_t x", "int64_t y", "int64_t z", *values]
        said = "32-bit indices" if launch.narrow_index else "exact indices"
        said += ", tensor maps" if any(p.maker for p in launch.made) else ""
        said += ", blocks that stay" if launch.persistent else ""
        said += ", begun early" if launch.early else ", at one time" if launch.together else ""
        return (
            f"/* Code {self.number + 1} of {self.of}: {said}. */\n"
            f"{_wrapped(f'static int launch_{self.number}(', words)}\n{{\n"
            f"{_indented([*numbers, *self.lines], 1)}\n}}"
        )

    def _add(self, program: Program, prefix: str) -> list[str]:
        names = [f"a{n}" for n in range(len(self.names))]
        lines, results = c_lines(
            program, names, ("x", "y", "z"), "return NOT_FOR_THIS;", prefix=prefix
        )
        self.lines += lines
        return results

    def _parameter(self, number: int, parameter: Parameter) -> str:
        """Write what makes a parameter; return its address."""
        grid = len(self.names)
        if not parameter.maker:
            place = parameter.inputs[0]
            return f"&{'xyz'[place - grid] if place >= grid else self.names[place]}"
        if parameter.maker not in (MAKER, WALKED_MAKER):
            raise OptionError(
                f"{self.kernel.name} takes a parameter that '{parameter.maker}' makes, which C "
                "does not know",
                hint=f"save one without tensor maps: {self.kernel.name}@tma=False",
                code="K804",
            )  # fmt: skip
        given = MapWords.read(parameter.data)
        over = _over(program_of(given), parameter.inputs)
        base, *rest = self._add(over, f"m{number}_")
        rank = len(given.box)
        box = ", ".join(map(str, given.box))
        extents = ", ".join(f"(uint64_t){extent}" for extent in rest[:rank])
        strides = ", ".join([*(f"(uint64_t){step}" for step in rest[rank : 2 * rank - 1]), "0"])
        # Of a walked map follow first places, last ones and steps along the axes in between.
        windows, count = rest[2 * rank - 1 :], rank - 2
        walked = parameter.maker == WALKED_MAKER
        apart = [f"(uint32_t){step}" for step in windows[2 * count :]] if walked else ["1"] * count
        ones = ", ".join(["1", *apart, "1"][:rank])
        corners = f"firsts{number}, lasts{number}, " if walked else ""
        if walked:
            for name, numbers in (("firsts", windows[:count]), ("lasts", windows[count:])):
                texts = ", ".join(f"(int){value}" for value in numbers[:count])
                self.lines.append(f"const int {name}{number}[] = {{{texts}}};")
        self.lines += [
            f"_Alignas({parameter.alignment}) unsigned char map{number}[{parameter.size}];",
            f"const uint64_t extents{number}[] = {{{extents}}};",
            f"const uint64_t strides{number}[] = {{{strides}}};",
            f"const uint32_t box{number}[] = {{{box}}}, ones{number}[] = {{{ones}}};",
            f"if (encode{'_walked' * walked}(map{number}, {given.type}, {rank}, (uint64_t){base},",
            f"           extents{number}, strides{number}, {corners}box{number},",
            f"           ones{number}, {given.swizzle}))",
            "    return NOT_FOR_THIS;",
        ]
        return f"map{number}"


def _over(program: Program, inputs: Sequence[int]) -> Program:
    """Return a program over a launch's values that was one over some of them."""
    code = tuple(
        (name, (inputs[operands[0]],)) if name == "argument" else (name, operands)
        for name, operands in program.code
    )
    return Program(code, program.results)


# -- what stands in the file ------------------------------------------------------------------
def _template() -> str:
    return resources.files("workbench.runtime").joinpath("launcher.c.txt").read_text("utf-8")


def _identifier(name: str) -> str:
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"k{word}" if word[:1].isdigit() else word


#: Words of C, and names that the file uses where those of values stand.
_TAKEN = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while stream x y z status parameters blocks driver codes encode NULL
    grid_x grid_y grid_z message refuse main check times filled show median n start_clock stop_clock
    printf blocks_for bool catch class delete explicit export false friend mutable namespace new
    operator private protected public template this throw true try typename using virtual
    encode_walked lines_of
"""


def _declared(kernel: CompiledKernel) -> dict[str, tuple[str, str]]:
    """Return the C type and name of each run-time value, by path."""
    found: dict[str, tuple[str, str]] = {}
    used: set[str] = set()
    for path, word in kernel.launch.parameters:
        name = _identifier(path)
        while (
            name in used
            or name in _TAKEN.split()
            or re.fullmatch(r"[awqm]\d+(_\d+)?", name)
            or re.fullmatch(r"(map|extents|strides|box|ones|firsts|lasts)\d+", name)
        ):
            name += "_"
        used.add(name)
        found[path] = ("uint64_t" if word.startswith("*") else _TYPES[word]), name
    return found


def _prototype(kernel: CompiledKernel) -> str:
    values = [f"{kind} {name}" for kind, name in _declared(kernel).values()]
    words = ["void *stream", "unsigned grid_x", "unsigned grid_y", "unsigned grid_z", *values]
    return _wrapped(f"int {_identifier(kernel.name)}_launch(", words)


def _wrapped(start: str, words: Sequence[str]) -> str:
    """Return a function's head in lines of at most 100 columns."""
    lines = [start + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 96:
            lines[-1] += ","
            lines.append(" " * len(start) + word)
        else:
            lines[-1] += f", {word}"
    return "\n".join(lines) + ")"


def _said(kernel: CompiledKernel) -> list[str]:
    """Return the lines of a comment that say what a launch takes."""
    declared = _declared(kernel)
    lines = [" * Takes, in this order (addresses are those of the device):"]
    facts = dict(_flat(kernel.signature.arguments))
    for path, word in kernel.launch.parameters:
        fact = facts.get(path)
        text = word if fact is None else fact.text()
        lines.append(f" *   {declared[path][1]}: {_commented(text)}")
    fixed = [
        f"{name} = {known.value!r}" for name, known in kernel.signature.arguments
        if known.is_constant
    ]  # fmt: skip
    if fixed:
        lines.append(f" * In the code: {_commented(', '.join(fixed))}")
    return lines


def _flat(arguments: Sequence[tuple[str, Argument]]) -> list[tuple[str, Argument]]:
    found: list[tuple[str, Argument]] = []
    for name, known in arguments:
        if known.items is None:
            found.append((name, known))
        else:
            found += _flat([(f"{name}.{n}", item) for n, item in enumerate(known.items)])
    return found


def _requirements(kernel: CompiledKernel) -> list[str]:
    """Return the lines that refuse values for which no code was compiled."""
    lines: list[str] = []
    declared, facts = _declared(kernel), dict(_flat(kernel.signature.arguments))
    for path, _ in kernel.launch.parameters:
        known, name = facts.get(path), declared[path][1]
        conditions: list[str] = []
        if known is None:
            continue
        if known.divisible > 1:
            conditions.append(f"(int64_t){name} % {known.divisible}")
        if known.low is not None:
            conditions.append(f"(int64_t){name} < INT64_C({known.low})")
        if known.high is not None:
            conditions.append(f"(int64_t){name} > INT64_C({known.high})")
        for condition in conditions:
            lines += [f"if ({condition})", f'    return refuse("{name}");']
    return lines


def _image(kernel: CompiledKernel, number: int) -> str:
    data = kernel.code + (b"\0" if kernel.launch.kind == "ptx" else b"")
    rows = [
        "    " + ",".join(f"0x{byte:02x}" for byte in data[start : start + 19]) + ","
        for start in range(0, len(data), 19)
    ]
    body = "\n".join(rows)
    return (
        f"/* {len(data):,} bytes: {kernel.launch.kind} for {kernel.target} */\n"
        f"_Alignas(64) static const unsigned char image_{number}[] = {{\n{body}\n}};"
    )


def _row(kernel: CompiledKernel, number: int) -> str:
    launch = kernel.launch
    numbers = f"{launch.threads}, {launch.dynamic_shared_bytes}, {int(launch.persistent)}"
    return f'    {{image_{number}, "{launch.symbol}", {numbers}, 0, NULL, NULL}},'


def _indented(lines: Sequence[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)


def _commented(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", "\n * ")


# -- main -------------------------------------------------------------------------------------
def _main(kernel: CompiledKernel, sample: Sample | None) -> str:
    name = _identifier(kernel.name)
    limits = GPU_LIMITS
    if sample is None or any(
        path not in sample.scalars and path not in sample.arrays
        for path, _ in kernel.launch.parameters
    ):
        return (
            f"    printf(\"{name}: loaded; no launch of it was recorded, so that {name}_launch is "
            "yours to call\\n\");\n    return 0;"
        )  # fmt: skip
    assert all(size <= limit for size, limit in zip(sample.grid, limits, strict=True))
    lines: list[str] = []
    given: list[str] = []
    shown: list[str] = []
    for path, word in kernel.launch.parameters:
        own = _declared(kernel)[path][1]
        array = sample.arrays.get(path)
        if array is None:
            given.append(_c_number(sample.scalars[path], word))
            continue
        if array.like:
            given.append(_declared(kernel)[array.like][1])
            continue
        exponent, mantissa = _FLOATS.get(_element(word), (0, 0))
        numbers = "NULL"
        if array.values:
            numbers = f"given_{own}"
            lines.append(
                f"static const int64_t {numbers}[] = {{"
                + ", ".join(f"INT64_C({v})" for v in array.values) + "};"
            )  # fmt: skip
        kind = f"{array.itemsize}, {exponent}, {mantissa}"
        lines.append(
            f"const uint64_t {own} = filled(INT64_C({array.count}), {kind}, {numbers}, "
            f"INT64_C({array.low}), INT64_C({array.high}));"
        )
        given.append(own)
        if path in kernel.outputs or path.partition(".")[0] in kernel.outputs:
            shown.append(f'show("{own}", {own}, INT64_C({array.count}), {kind});')
    grid = ", ".join(map(str, sample.grid))
    call = f"{name}_launch(NULL, {grid}{''.join(', ' + word for word in given)})"
    lines += [
        f'check({call}, "the launch");',
        'check(driver.synchronize(), "the kernel");',
        *shown,
        "double times[20];",
        "for (int n = 0; n < 20; n++) {",
        "    start_clock();",
        f'    check({call}, "the launch");',
        "    times[n] = stop_clock();",
        "}",
        f'printf("{name}, grid ({grid}): %.4f ms (median of 20, the caches warm)\\n", '
        "median(times, 20));",
        "return 0;",
    ]
    return _indented(lines, 1)


def _element(word: str) -> str:
    return word.lstrip("*").removeprefix("k") if word.startswith("*k") else word.lstrip("*")


def _c_number(value: int | float, word: str) -> str:
    if _TYPES.get(word) in ("float", "double"):
        number = float(value)
        if number != number:
            return "(0.0 / 0.0)"
        if number in (float("inf"), float("-inf")):
            return f"({'-' if number < 0 else ''}1.0 / 0.0)"
        return repr(number)
    return f"({_TYPES.get(word, 'uint64_t')})INT64_C({int(value)})"
