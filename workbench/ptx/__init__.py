"""Inline PTX: how it is read, and what common instructions mean in the terms of tile ops.

A program of PTX is run on a `Machine` that knows elementwise functions, conversions, bits and
selection: arrays in the interpreter, ops of the tile IR for a target that is no NVIDIA chip. So
this room stands below the ops and imports none of them. How a chip's own assembler gets the text
belongs to targets/nvidia.
"""

from workbench.ptx.meaning import Program, evaluate, words_of
from workbench.ptx.reading import Instruction, read_instructions
from workbench.ptx.registers import Machine, registers_of

__all__ = [
    "Instruction",
    "Machine",
    "Program",
    "evaluate",
    "read_instructions",
    "registers_of",
    "words_of",
]
