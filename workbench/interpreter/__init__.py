"""The machine that runs `interpret`: program instances, memory, recording of accesses.

What an op means belongs to ops/; that the interpreter is also a target belongs to
targets/interpreter. Everything here runs on NumPy alone.
"""

from workbench.interpreter.constants import interpret_constant_op
from workbench.interpreter.machine import Machine, run_module
from workbench.interpreter.memory import (
    Allocation,
    Memory,
    Storage,
    describe_argument,
    mapped,
    storage_of,
)
from workbench.interpreter.recording import Access, Finding, Race, Recording, Severity
from workbench.interpreter.reporting import Report, checked_report, error_of, grouped, said_of

__all__ = [
    "Access", "Allocation", "Finding", "Machine", "Memory", "Race", "Recording", "Report",
    "Severity", "Storage", "checked_report", "describe_argument", "error_of", "grouped",
    "interpret_constant_op", "mapped", "run_module", "said_of", "storage_of",
]  # fmt: skip
