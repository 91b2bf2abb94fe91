"""Assembly written by the author, applied element by element."""

from __future__ import annotations

import re
from typing import Any

from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, number_type
from workbench.language.shapes import broadcast_tensor, common_shape
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import (
    Shape,
    as_dtype,
    describe,
    static,
    static_int,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import InlineAssembly
from workbench.ptx import registers_of
from workbench.source import ConstexprError


@builtin
def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any
) -> Any:
    """Return what PTX instructions give for every `pack` elements of the operands.

    Registers are $0, $1, ...: those of the results, then those of the operands, which are
    broadcast together. Elements of fewer than 32 bits share 32-bit registers. Several dtypes give
    a tuple. Away from a GPU, common instructions are understood.
    """
    text, kinds = static(asm, "asm"), static(constraints, "constraints")
    if not isinstance(text, str) or not isinstance(kinds, str):
        raise ConstexprError(
            "inline_asm_elementwise needs its assembly and constraints as strings",
            hint='write e.g. ("neg.f32 $0, $1;", "=f,f", ...)',
        )
    wanted = static(dtype, "dtype") if not is_tuple(dtype) else dtype
    types = [as_dtype(t) for t in (wanted if is_tuple(wanted) else (wanted,))]
    operands = [to_tensor(x) for x in (args if is_tuple(args) else (args,))]
    each = static_int(pack, "pack")
    text, kinds, operands = _with_immediates(text, kinds, operands, types, each)
    found = assembly(
        text,
        kinds,
        operands,
        types,
        pack=each,
        has_effects=not static(is_pure, "is_pure"),
    )
    return found if is_tuple(wanted) else found[0]


def _with_immediates(
    text: str, constraints: str, operands: list[tensor], types: list[dtype], pack: int
) -> tuple[str, str, list[tensor]]:
    """Write operands with the constraint "n" (numbers known at compile time) into the text.

    The other registers are numbered anew.
    """
    words = [word.strip() for word in constraints.split(",") if word.strip()]
    if "n" not in words:
        return text, constraints, operands
    results = sum(registers_of(number_type(t), pack)[1] for t in types)
    names: dict[int, str] = {number: f"${number}" for number in range(results)}
    kept_words, kept = words[:results], list[tensor]()
    place = results
    for operand in operands:
        count = registers_of(operand.dtype.element, pack)[1]
        own = words[place : place + count]
        if "n" in own:
            number = operand.constant
            if number is None or operand.dtype.is_floating():
                raise ConstexprError(
                    f"the constraint 'n' is for an integer known at compile time, operand "
                    f"{len(kept)} is {describe(operand)}",
                    hint="use 'r', or make it a tl.constexpr",
                )
            names |= dict.fromkeys(range(place, place + count), str(int(number)))
        else:
            for offset in range(count):
                names[place + offset] = f"${len(kept_words) + offset}"
            kept_words += own
            kept.append(operand)
        place += count
    written = re.sub(r"\$(\d+)", lambda m: names.get(int(m[1]), m[0]), text)
    return written, ",".join([*kept_words, *words[place:]]), kept


def assembly(
    text: str,
    constraints: str,
    operands: list[tensor],
    types: list[dtype],
    *,
    pack: int = 1,
    has_effects: bool = False,
    shape: Shape = (),
) -> tuple[tensor, ...]:
    """Insert assembly and return its results."""
    extents = common_shape(*operands, what="the operands of inline assembly") if operands else shape
    op = InlineAssembly(
        tuple(broadcast_tensor(x, extents).stored() for x in operands),
        text=text,
        constraints=constraints,
        types=tuple(map(number_type, types)),
        shape=() if operands else extents,
        pack=pack,
        has_effects=has_effects,
    )
    current().builder.insert(op)
    return tuple(wrap(value, t) for value, t in zip(op.results, types, strict=True))
