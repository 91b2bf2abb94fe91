"""Inline PTX: how a text is read, what an instruction means, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.ir import F32, I32, U32, Scalar, Value
from workbench.ops import InlineAssembly
from workbench.ptx import Program, evaluate, read_instructions
from workbench.source import TargetError


def computed(text: str, types: tuple[Scalar, ...], *inputs: tuple[np.ndarray, Scalar]):
    """Run a text on arrays, as the op's own meaning does."""
    values = [Value(element) for _, element in inputs]
    op = InlineAssembly(tuple(values), text=text, types=types)
    frame: dict[Value, np.ndarray] = dict(zip(values, [a for a, _ in inputs], strict=True))
    return op.interpret(frame)  # type: ignore[arg-type]


def test_a_text_is_read_into_instructions():
    found = read_instructions(
        """
        { // a block with its own register
          .reg .pred %p;  /* declared,
          here */
          setp.gt.s32 %p, $1, 0;
          @!%p mov.b32 {a, b}, $1;
        }
        """
    )
    assert [(i.base, i.parts, i.operands, i.guard) for i in found] == [
        ("setp", ("setp", "gt", "s32"), ("%p", "$1", "0"), ""),
        ("mov", ("mov", "b32"), ("{a, b}", "$1"), "!%p"),
    ]


def test_a_guard_holds_for_every_register_of_a_vector():
    text = """
        mov.b32 {lo, hi}, $1;
        setp.gt.s32 p, $1, 65536;
        @p mov.b32 {lo, hi}, 0;
        mov.b32 $0, {lo, hi};
    """
    (result,) = computed(text, (I32,), (np.array(3 << 16 | 7, np.int32), I32))
    assert result == 0
    (result,) = computed(text, (I32,), (np.array(7, np.int32), I32))
    assert result == 7


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("frobnicate.f32 $0, $1;", "'frobnicate.f32 $0, $1'"),
        ("add.f32 $0, $1;", "'add.f32 $0, $1'"),
        ("cvt.f32 $0, $1;", "'cvt.f32 $0, $1'"),
        ("cvt.rn.bf16x2.f32 $0, $1;", "'cvt.rn.bf16x2.f32 $0, $1'"),
        ("mov $0, $1;", "'mov $0, $1'"),
        ("setp $0, $1, $1;", "'setp $0, $1, $1'"),
        ("mul.wide.u64 $0, $1, $1;", "'mul.wide.u64 $0, $1, $1'"),
        ("lop3.b32 $0, $1, $1, $1, $1;", "'lop3.b32 $0, $1, $1, $1, $1'"),
        ("add.f32 $0, $1, nowhere;", "the operand 'nowhere'"),
    ],
)
def test_what_has_no_meaning_is_named(text: str, named: str):
    with pytest.raises(TargetError, match="no meaning known away from an NVIDIA chip") as caught:
        computed(text, (F32,), (np.array(1.5, np.float32), F32))
    assert named in str(caught.value)


def test_a_program_is_data_and_runs_on_any_machine():
    class Written:
        """Writes what it is asked for."""

        def number(self, value: float | int, element: Scalar) -> str:
            return f"{value}:{element}"

        def apply(self, function: str, element: Scalar, inputs: list[str]) -> str:
            return f"{function}({', '.join(inputs)})"

        def convert(self, value: str, source: Scalar, to: Scalar, rounding: str) -> str:
            return f"{to}({value})"

        def bits(self, value: str, source: Scalar, to: Scalar) -> str:
            return f"{to}[{value}]"

        def select(self, condition: str, then: str, otherwise: str) -> str:
            return f"{condition} ? {then} : {otherwise}"

    program = Program("setp.lt.u32 p, $1, 4; selp.b32 $0, $1, 4, p;", (U32,))
    assert evaluate(program, Written(), [("x", U32)]) == ("lt(x, 4:u32) ? x : 4:u32",)
