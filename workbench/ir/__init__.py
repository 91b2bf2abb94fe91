"""The IR itself: types, values, ops, blocks, builder, rebuild, text form, verifier.

What an op means belongs to ops/; how IR changes belongs to passes/.
"""

from workbench.ir.build import Builder
from workbench.ir.frame import Array, Frame
from workbench.ir.operation import (
    MNEMONICS,
    Block,
    KernelParameter,
    Module,
    Op,
    Value,
    attribute,
    walk,
)
from workbench.ir.parser import parse_module
from workbench.ir.printer import print_module, print_rows
from workbench.ir.rebuild import DROP, Drop, clone_into, copy_op, rebuild
from workbench.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    SCALARS,
    U8,
    U16,
    U32,
    U64,
    Element,
    Pointer,
    Scalar,
    Shared,
    Tile,
    Token,
    Type,
    element_of,
    format_type,
    layout_of,
    shape_of,
    tile,
    with_element,
)
from workbench.ir.verifier import InvalidModuleError, verify_module

__all__ = [
    "BF16", "DROP", "F8E4M3", "F8E5M2", "F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64",
    "INDEX", "MNEMONICS", "SCALARS", "U8", "U16", "U32", "U64", "Array", "Block", "Builder",
    "Drop", "Element", "Frame", "InvalidModuleError", "KernelParameter", "Module", "Op",
    "Pointer", "Scalar", "Shared", "Tile", "Token", "Type", "Value", "attribute", "clone_into",
    "copy_op", "element_of", "format_type", "layout_of", "parse_module", "print_module",
    "print_rows", "rebuild", "shape_of", "tile", "verify_module", "walk", "with_element",
]  # fmt: skip
