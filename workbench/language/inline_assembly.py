"""Assembly written by the author, applied element by element."""

from __future__ import annotations

from typing import Any

from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, number_type
from workbench.language.shapes import broadcast_tensor, common_shape
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import Shape, as_dtype, static, static_int, tensor, to_tensor, wrap
from workbench.ops import InlineAssembly
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
        raise ConstexprError("inline_asm_elementwise needs its assembly and constraints as strings")
    wanted = static(dtype, "dtype") if not is_tuple(dtype) else dtype
    types = [as_dtype(t) for t in (wanted if is_tuple(wanted) else (wanted,))]
    operands = [to_tensor(x) for x in (args if is_tuple(args) else (args,))]
    found = assembly(
        text,
        kinds,
        operands,
        types,
        pack=static_int(pack, "pack"),
        has_effects=not static(is_pure, "is_pure"),
    )
    return found if is_tuple(wanted) else found[0]


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
