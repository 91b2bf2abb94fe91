"""Binds the arguments of one launch: by name, to types, facts and values; the careful path.

Everything that can be wrong with a launch is found and worded here. Launches after the first
run generated code (`launchers.py`) and come back here only when something is new.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from workbench.devices import arrays
from workbench.launch.abi import FORMATS, RangeError
from workbench.launch.descriptors import TensorDescriptor
from workbench.launch.facts import DescriptorKind, Signature
from workbench.launch.instead import instead_of
from workbench.launch.measures import WIDEST_ACCESS, measure_address, measure_integer
from workbench.launch.options import PLACES, check_options, unknown_option
from workbench.launch.signature import parameter_span
from workbench.launch.stand_ins import MockTensor, TensorWrapper
from workbench.source import (
    ArgumentError,
    KernelSource,
    LaunchError,
    OptionError,
    Parameter,
    shown,
)
from workbench.source.arguments import Argument, constant
from workbench.source.elements import ITEM_BITS, parse_type
from workbench.source.given import plain_number, wrong_kind
from workbench.source.parameters import undeclared


@dataclass(slots=True)
class Call:
    """One launch, bound.

    `values` are all parameters by name as given, `kinds` one letter each: "t" array, "i" integer,
    "f" float, "b" bool, "u" tuple or descriptor, "x" a constexpr object; of constants "c" what
    equals nothing else of its class, "z" a float, "k" anything. `runtime` is what the code
    receives, in order, `objects` the same with the arrays themselves in place of their addresses.
    `options` are those that hold, `asked` those that the caller gave.
    """

    values: dict[str, Any]
    options: dict[str, Any]
    places: dict[str, Any]
    kinds: str = ""
    known: list[tuple[str, Argument]] = field(default_factory=list[tuple[str, Argument]])
    runtime: list[Any] = field(default_factory=list[Any])
    objects: list[Any] = field(default_factory=list[Any])
    arrays: list[tuple[str, arrays.Array]] = field(default_factory=list[tuple[str, arrays.Array]])
    asked: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.asked = dict(self.options)

    def receive(self, value: Any, given: Any) -> None:
        """Append one run-time value."""
        self.runtime.append(value)
        self.objects.append(given)

    @property
    def integers(self) -> dict[str, int]:
        """Integer arguments by name or path, for the index program."""
        plain = {name: value for name, value in self.values.items() if isinstance(value, int)}
        return plain | {
            path: value
            for name, known in self.known
            if known.items is not None
            for path, _, value in leaves(name, known, self.values[name])
            if isinstance(value, int)
        }

    def signature(self, source: KernelSource) -> Signature:
        """Return what the launch is specialised on."""
        return Signature(tuple(self.known), check_options(self.options, source))


def leaves(name: str, known: Argument, value: Any) -> Iterator[tuple[str, Argument, Any]]:
    """Yield (path, what is known, value) of an argument, or of each innermost member of a tuple."""
    if known.items is None:
        yield name, known, value
        return
    for place, item in enumerate(known.items):
        yield from leaves(f"{name}.{place}", item, value[place])


def bind_names(source: KernelSource, args: Sequence[Any], given: Mapping[str, Any]) -> Call:
    """Sort positional and keyword arguments into parameters, options and places.

    Raises:
        ArgumentError: too many, too few, or doubled arguments (K220, a TypeError).
        UnknownOptionError: a name that nobody knows (K112, a KeyError).
        UnsupportedSyntaxError: a kernel with * or ** parameters (K215).
    """
    parameters = source.parameters
    if any(p.is_variadic for p in parameters):
        source.refuse_variadic()
    names = [p.name for p in parameters]
    if len(args) > len(parameters):
        raise ArgumentError(
            f"{source.name} takes {_count(names)}, got {len(args)}",
            definition_span(source),
            hint=f"its parameters are {', '.join(names)}",
        )
    values = dict(zip(names, args, strict=False))
    options: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for name, value in given.items():
        if name in values:
            raise ArgumentError(
                f"{source.name} got '{name}' twice, by position and by name",
                parameter_span(source, name),
                hint="give it once",
            )
        if name in names:
            values[name] = value
        elif name in PLACES:
            places[name] = value
        elif name == "grid":
            raise OptionError(
                f"the grid of a launch stands in brackets, got grid={shown(value)}",
                definition_span(source),
                hint=f"write {source.name}[grid](...)",
                code="K111",
            )
        else:
            options[name] = value
    if options:
        check_options(options, source)
    missing = [p for p in parameters if p.name not in values and p.required]
    if missing:
        raise _missing(source, missing, len(args))
    ordered = {p.name: values.get(p.name, p.default) for p in parameters}
    return Call(ordered, options, places)


def _missing(source: KernelSource, missing: list[Parameter], positional: int) -> ArgumentError:
    name = missing[0].name
    constants = [p.name for p in missing if p.is_constexpr]
    others = [p.name for p in missing if not p.is_constexpr]
    span = parameter_span(source, name)
    if not others:
        words = ", ".join(f"'{n}'" for n in constants)
        plural = "s" if len(constants) > 1 else ""
        return ArgumentError(
            f"{source.name} needs a value for constexpr{plural} {words}",
            span,
            hint=f"give it by name at the launch: {constants[0]}=...",
        )
    runtime = [p.name for p in source.parameters if not p.is_constexpr]
    given = len(runtime) - len(others)
    hint = f"its arguments are {', '.join(runtime)}"
    if runtime[0] == "self":
        hint += "; no kernel is given an object: define it outside the class"
    return ArgumentError(
        f"{source.name} takes {_count(runtime)}, got {given}; missing {', '.join(others)}",
        span,
        hint=hint,
    )


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} argument{'' if len(names) == 1 else 's'}"


def definition_span(source: KernelSource) -> Any:
    """Return the place of the kernel's name in its `def`."""
    from workbench.source import Span

    line = source.text.splitlines()[0] if source.text else ""
    column = line.find(source.name)
    if column < 0:
        return None
    start = source.indent + column + 1
    return Span(source.file, source.first_line, start, source.first_line, start + len(source.name))


def classify(source: KernelSource, parameters: Sequence[Parameter], call: Call) -> None:
    """Fill in types, facts and run-time values of a call; raises LaunchError K501, K505."""
    kinds: list[str] = []
    for parameter in parameters:
        value = call.values[parameter.name]
        if parameter.is_constexpr:
            kinds.append(_constant_kind(value))
            call.known.append((parameter.name, _constexpr(source, parameter.name, value)))
            continue
        kind, known = _classify(source, parameter.name, parameter, value, call)
        kinds.append(kind)
        call.known.append((parameter.name, known))
    call.kinds = "".join(kinds)
    needed = tuple(sorted(_needed(known for _, known in call.known), reverse=True))
    call.known[:] = [(name, _rounded(known, needed)) for name, known in call.known]


def _needed(arguments: Iterable[Argument]) -> set[int]:
    """Return which divisors of integers tell anything about accesses of 16 bytes.

    That is 16, and for arrays of elements of n bytes 16 / n: rows that are so many elements
    apart begin where a wide access may.
    """
    found = {WIDEST_ACCESS}
    for known in arguments:
        if known.items is not None:
            found |= _needed(known.items)
        elif known.type is not None and known.is_pointer:
            word = known.type.removeprefix("*").removeprefix("k")
            found.add(WIDEST_ACCESS * 8 // max(8, ITEM_BITS.get(word, 64)))
    return found


def _rounded(known: Argument, needed: Sequence[int]) -> Argument:
    """Return what is known of an argument without divisors that tell nothing."""
    if known.items is not None:
        return replace(known, items=tuple(_rounded(item, needed) for item in known.items))
    if known.type is None or known.is_pointer or known.divisible in (1, *needed):
        return known
    return replace(known, divisible=next((n for n in needed if n < known.divisible), 1))


def _constexpr(source: KernelSource, name: str, value: Any) -> Argument:
    value = _plain(_unwrapped(value))
    if not isinstance(value, type) and (
        hasattr(value, "data_ptr") or hasattr(value, "__array_interface__")
    ):
        raise ArgumentError(
            f"constexpr '{name}' got a {type(value).__name__}, whose elements are not known when "
            "the kernel is compiled",
            parameter_span(source, name),
            hint=f"pass a number, e.g. {name}=x.item(), or drop ': tl.constexpr'",
        )
    try:
        hash(value)
    except Exception as error:
        raise ArgumentError(
            f"constexpr '{name}' cannot be a {type(value).__name__}, which has no fixed value",
            parameter_span(source, name),
            hint="pass a number, a string, a dtype, a function or a tuple of them",
        ) from error
    return constant(value)


def _constant_kind(value: Any) -> str:
    if type(value) is float:
        return "z"
    if type(value).__name__ == "constexpr":
        return "k"
    plain = value is None or type(value) in (int, bool, str) or isinstance(value, type)
    return "c" if plain or _is_kernel(value) or _is_kernel_dtype(value) else "k"


def _plain(value: Any) -> Any:
    """Turn NumPy's scalars into Python's, in tuples too."""
    if not isinstance(value, tuple):
        return plain_number(value)
    given = cast("tuple[Any, ...]", value)
    items = tuple(map(_plain, given))
    if all(one is other for one, other in zip(items, given, strict=True)):
        return given
    make = getattr(type(given), "_make", None)
    return make(items) if make is not None else items


def _unwrapped(value: Any) -> Any:
    return value.value if type(value).__name__ == "constexpr" else value


def _classify(
    source: KernelSource, name: str, declared: Parameter, value: Any, call: Call
) -> tuple[str, Argument]:
    if type(value).__name__ == "constexpr":
        return "x", constant(value.value)
    value = plain_number(value)
    match value:
        case bool():
            return "b", _number(source, name, declared, value, "i1", call)
        case int():
            return "i", _integer(source, name, declared, value, call)
        case float():
            return "f", _number(source, name, declared, value, "f32", call)
        case None | str():
            return "c", constant(value)
        case tuple():
            return "u", _tuple(source, name, declared, value, call)
        case TensorDescriptor():
            return "u", _descriptor(source, name, value, call)
    if isinstance(value, type) or _is_kernel(value) or _is_kernel_dtype(value):
        return "c", constant(value)
    return "t", _pointer(source, name, declared, value, call)


def _is_kernel(value: Any) -> bool:
    try:
        return isinstance(getattr(value, "kernel_source", None), KernelSource)
    except Exception:  # whatever its own code does
        return False


def _is_kernel_dtype(value: Any) -> bool:
    return type(value).__module__.startswith("workbench.language")


def _tuple(
    source: KernelSource, name: str, declared: Parameter, value: tuple[Any, ...], call: Call
) -> Argument:
    items = [
        _classify(source, f"{name}.{number}", declared, item, call)[1]
        for number, item in enumerate(value)
    ]
    kind = type(value) if hasattr(value, "_make") else None  # other subclasses are plain tuples
    return Argument(None, kind, items=tuple(items))


def _descriptor(source: KernelSource, name: str, value: TensorDescriptor, call: Call) -> Argument:
    """Bind a descriptor as what it is made of: base, shape (i32) and strides (i64)."""
    plain = undeclared()
    base = _classify(source, f"{name}.0", plain, value.base, call)[1]
    members = [base]
    for number, (word, values) in enumerate((("i32", value.shape), ("i64", value.strides)), 1):
        # A 1 stays a constant in either: the last stride nearly always is.
        kinds = [plain if int(item) == 1 else undeclared(word) for item in values]
        path = f"{name}.{number}"
        items = [
            _integer(source, f"{path}.{place}", kind, int(item), call)
            for place, (kind, item) in enumerate(zip(kinds, values, strict=True))
        ]
        members.append(Argument(items=tuple(items)))
    block = tuple(int(extent) for extent in value.block_shape)
    return Argument(value=DescriptorKind(block, value.padding), items=tuple(members))


def _integer(
    source: KernelSource, name: str, declared: Parameter, value: int, call: Call
) -> Argument:
    one, alignment, *widths, _ = measure_integer(value)
    if one and declared.by_value and declared.type is None:
        return constant(1)
    word = declared.type or _smallest(source, name, value, widths)
    if word.startswith(("f", "bf")):
        return _number(source, name, declared, float(value), word, call)
    if word.startswith("*"):
        raise _wrong_kind(source, name, "an integer", f"a pointer ({word})")
    low, high = _limits(word)
    if not low <= value <= high:
        raise RangeError(
            f"{name} = {shown(value)} does not fit {word}", parameter_span(source, name)
        )
    divisible = alignment if declared.by_alignment else 1
    call.receive(value, value)
    # A 1 whose type is fixed stays a run-time value of that type, but it is known.
    bound = 1 if one and declared.by_value else None
    return Argument(word, divisible=divisible, low=bound, high=bound)


def _limits(word: str) -> tuple[int, int]:
    bits = ITEM_BITS[word]
    if word.startswith("u") or word == "i1":
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _smallest(source: KernelSource, name: str, value: int, widths: Sequence[int]) -> str:
    for word, holds in zip(("i32", "i64", "u64"), (*widths, 0 <= value < 1 << 64), strict=True):
        if holds:
            return word
    raise RangeError(
        f"{name} = {shown(value)} needs more than 64 bits",
        parameter_span(source, name),
        hint="pass it as a float, or as two integers of 64 bits",
    )


def _number(
    source: KernelSource, name: str, declared: Parameter, value: Any, default: str, call: Call
) -> Argument:
    word = declared.type or default
    if word.startswith("*"):
        raise _wrong_kind(source, name, f"a {type(value).__name__}", f"a pointer ({word})")
    if isinstance(value, float) and not word.startswith(("f", "bf")):
        raise _wrong_kind(source, name, "a float", f"an {word}")
    if word not in FORMATS:
        raise LaunchError(
            f"{name}: a scalar argument cannot be {word}",
            parameter_span(source, name),
            hint="pass it as fp32 and convert it in the kernel",
            code="K505",
        )
    call.receive(value, value)
    return Argument(word)


def _pointer(
    source: KernelSource, name: str, declared: Parameter, value: Any, call: Call
) -> Argument:
    value = MockTensor.wrap_dtype(value)
    if isinstance(value, MockTensor):
        word = parse_type(str(value.dtype).removeprefix("torch."))
        return Argument(declared.type or f"*{word}", divisible=WIDEST_ACCESS)
    if type(value).__name__ in ("FakeTensor", "FunctionalTensor"):
        raise LaunchError(
            f"{name} is a {type(value).__name__}, which has no memory",
            parameter_span(source, name.partition(".")[0]),
            hint="make the function that launches the kernel an operator: @workbench.torch_op",
            code="K512",
        )
    try:
        array = arrays.describe(value)
    except arrays.NotAnArray as error:
        kind, why = type(value).__name__, str(error)
        found = (
            f"a {kind}" if why == f"a {kind} is no array" else f"a {kind} that is no array: {why}"
        )
        expected = "an array, a number, a tuple or None"
        raise _wrong_kind(source, name, found, expected) from error
    word = declared.type or f"*{array.type}"
    if array.type is None:
        raise LaunchError(
            f"{name} has dtype {array.dtype}, which kernels do not have",
            parameter_span(source, name),
            hint="dtypes are bool, int8 … int64, uint8 … uint64, float16, bfloat16, float32, "
            "float64, float8_e4m3fn, float8_e5m2; convert it before the launch",
            code="K505",
        )
    if not word.startswith("*"):
        raise _wrong_kind(source, name, f"an array of {array.dtype}", f"a scalar ({word})")
    if word.lstrip("*k") != array.type:
        raise LaunchError(
            f"{name} is annotated as {word}, got an array of {array.dtype}",
            parameter_span(source, name),
            hint=f"pass an array of {word.lstrip('*k')}, or change the annotation",
            code="K505",
        )
    call.arrays.append((name, array))
    held = value if array.owner is None else array.owner
    call.receive(array.address, held.base if isinstance(held, TensorWrapper) else held)
    (aligned,) = measure_address(array.address)
    divisible = WIDEST_ACCESS if declared.by_alignment and aligned else 1
    return Argument(word, divisible=divisible)


def _wrong_kind(source: KernelSource, name: str, found: str, expected: str) -> LaunchError:
    return LaunchError(
        f"{name} is {found}, {source.name} takes {expected} there",
        parameter_span(source, name.partition(".")[0]),
        hint=instead_of(found) if "array" in expected else None,
        code="K501",
    )


def check_declared(source: KernelSource, parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return a kernel's parameters, whose `do_not_specialize` is what jit was given.

    Raises ArgumentError for a constexpr that is not to be specialised on (rule 15).
    """
    for parameter in parameters:
        if parameter.is_constexpr and parameter.do_not_specialize:
            raise ArgumentError(
                f"{parameter.name} marked as constexpr and listed in do_not_specialize: every "
                "value of a constexpr makes a kernel of its own",
                parameter_span(source, parameter.name),
                hint="take it from the list, or drop ': tl.constexpr'",
            )
        if parameter.is_pointer_to_nothing:
            raise ArgumentError(
                f"{parameter.name} is annotated as {parameter.annotation}, which is no pointer",
                parameter_span(source, parameter.name),
                hint="write a dtype behind the star, e.g. '*fp32', or drop the annotation",
            )
    return tuple(parameters)


def choose_target(
    source: KernelSource, call: Call, *, launches: bool = True
) -> tuple[str | None, int]:
    """Return (target, device) for the arrays of a call; the target is None for "this GPU's chip".

    What is compiled without a launch may have its arrays anywhere.

    Raises:
        LaunchError: arrays on different devices, or on one that kernels cannot reach (K504).
    """
    wanted = call.places.get("target")
    if wanted is not None and not isinstance(wanted, str):
        raise wrong_kind("target= is a text", wanted, 'one of "cpu", "interpreter", "sm_90a", …')
    device: int | None = None
    first = ""
    for name, array in call.arrays:
        if array.device is None:
            raise LaunchError(
                f"{name} lies on {array.place}, where kernels cannot run",
                parameter_span(source, name),
                hint="move it to the CPU or to a CUDA device",
                code="K504",
            )
        if device is None:
            device, first = array.device, name
        elif array.device != device:
            raise _mixed(source, first, device, name, array.device)
    if not launches and wanted not in (None, "auto"):
        device = None
    return _target_for(source, call, wanted, device, first)


def _target_for(
    source: KernelSource, call: Call, wanted: str | None, device: int | None, first: str
) -> tuple[str | None, int]:
    given = call.places.get("device")
    if wanted == "interpreter":
        return wanted, arrays.HOST
    if wanted == "cpu" or (wanted is None and _is_host(given)):
        if device is not None and device != arrays.HOST:
            raise LaunchError(
                f"{first} lies on cuda:{device}, target cpu reads host memory",
                parameter_span(source, first),
                hint=f"pass {first}.cpu(), or leave the target to the arrays",
                code="K504",
            )
        return "cpu", arrays.HOST
    if wanted not in (None, "auto"):
        if not wanted.startswith("sm_"):
            raise OptionError(
                f"unknown target {wanted[:40]}; known: cpu, interpreter, sm_80 … sm_121a",
                hint="leave it out: the arrays say where a launch runs",
                code="K114",
            )
        if device == arrays.HOST:
            from workbench.compiler import family_of

            family_of(wanted)  # a chip that there is none of is no question of where arrays lie
            raise LaunchError(
                f"{first} is a CPU array, target {wanted} needs arrays on a CUDA device",
                parameter_span(source, first),
                hint=f"pass {first}.cuda(), or launch with target cpu; to look at the code alone: "
                f'--no-run, or workbench.compile(…, target="{wanted}")',
                code="K504",
            )
        return wanted, 0 if device is None else device
    if device is None:
        device = _default_device()
    return ("cpu" if device == arrays.HOST else None), device


def _is_host(given: Any) -> bool:
    """Say whether `device=` means the CPU; raises K105 for what is no device."""
    if given is None:
        return False
    kind = given if isinstance(given, str) else getattr(given, "type", given)
    if isinstance(kind, int) and not isinstance(kind, bool):
        return False
    if not isinstance(kind, str):
        what = 'device= is "cpu" or a device of torch'
        raise wrong_kind(what, given, "leave it out: the arrays say where they lie")
    return kind == "cpu"


def _default_device() -> int:
    """Return where a kernel without arrays runs: the current GPU if there is one, else the host."""
    from workbench.devices import cuda

    torch = sys.modules.get("torch")
    if torch is None:
        return 0 if cuda.available() else arrays.HOST
    # torch may answer for a device that is not there: as_triton(cuda="cpu").
    there = torch.cuda.is_available() and cuda.available()
    return torch.cuda.current_device() if there else arrays.HOST


def _mixed(source: KernelSource, a: str, on: int, b: str, other: int) -> LaunchError:
    if arrays.HOST not in (on, other):
        return LaunchError(
            f"{a} lies on cuda:{on}, {b} on cuda:{other}",
            parameter_span(source, b),
            hint="all arrays of a launch lie on one device",
            code="K504",
        )
    host, gpu, ordinal = (a, b, other) if on == arrays.HOST else (b, a, on)
    return LaunchError(
        f"{host} is a CPU tensor, {gpu} lies on cuda:{ordinal}",
        parameter_span(source, host),
        hint=f"move it before the launch: {host}.to('cuda:{ordinal}')",
        code="K504",
    )


__all__ = [
    "Call",
    "bind_names",
    "check_declared",
    "choose_target",
    "classify",
    "definition_span",
    "unknown_option",
]  # fmt: skip
