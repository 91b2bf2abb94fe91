"""What each op is and means: definition, inference, verification, interpretation, example.

One file per family. How a target emits an op belongs to targets/; what an author writes to get
one belongs to language/. Scalars and tiles share their ops: a scalar is a value of empty shape.
"""

from workbench.ops.arithmetic import (
    Constant,
    Elementwise,
    Iota,
    Select,
    elementwise,
    index_constant,
)
from workbench.ops.atomics import AtomicCompareExchange, AtomicUpdate
from workbench.ops.casts import Bitcast, Cast, convert
from workbench.ops.control import (
    For,
    If,
    Map,
    Return,
    While,
    Yield,
    count_rounds,
    counted,
    counted_loops,
)
from workbench.ops.debug import DeviceAssert, DevicePrint
from workbench.ops.dots import Dot
from workbench.ops.functions import FUNCTIONS, Function
from workbench.ops.inline_assembly import InlineAssembly
from workbench.ops.layout import ConvertLayout
from workbench.ops.memory import AddPointer, CheckAccess, Load, Store, pointee_of
from workbench.ops.program import (
    Assume,
    Barrier,
    GridDependencyWait,
    LaunchDependents,
    NumPrograms,
    ProgramId,
    Promise,
)
from workbench.ops.reductions import Reduce, Scan, combine_function, combines
from workbench.ops.shapes import (
    Broadcast,
    Concatenate,
    ExpandDims,
    Join,
    Reshape,
    Splat,
    Split,
    Transpose,
)
from workbench.ops.sorts import Gather, Histogram, Merge, Sort

__all__ = [
    "FUNCTIONS",
    "AddPointer",
    "Assume",
    "AtomicCompareExchange",
    "AtomicUpdate",
    "Barrier",
    "Bitcast",
    "Broadcast",
    "Cast",
    "CheckAccess",
    "Concatenate",
    "Constant",
    "ConvertLayout",
    "DeviceAssert",
    "DevicePrint",
    "Dot",
    "Elementwise",
    "ExpandDims",
    "For",
    "Function",
    "Gather",
    "GridDependencyWait",
    "Histogram",
    "If",
    "InlineAssembly",
    "Iota",
    "Join",
    "LaunchDependents",
    "Load",
    "Map",
    "Merge",
    "NumPrograms",
    "ProgramId",
    "Promise",
    "Reduce",
    "Reshape",
    "Return",
    "Scan",
    "Select",
    "Sort",
    "Splat",
    "Split",
    "Store",
    "Transpose",
    "While",
    "Yield",
    "combine_function",
    "combines",
    "convert",
    "count_rounds",
    "counted",
    "counted_loops",
    "elementwise",
    "index_constant",
    "pointee_of",
]  # fmt: skip
