"""Places, texts and errors: spans, source text, a kernel function as data, errors with a caret.

A leaf: it imports nothing of ours. What an error or an op says about its place is built here;
what the place means is decided by the rooms above.
"""

from workbench.source.budgets import (
    checking,
    limit_of,
    over_budget,
    refused,
    seconds_of_loops,
    shown,
)
from workbench.source.depth import deep
from workbench.source.errors import (
    ArgumentError,
    CheckError,
    CompileError,
    ConstexprError,
    KernelError,
    KernelTypeError,
    LaunchError,
    Note,
    OptionError,
    ResourceError,
    ShapeError,
    StaticAssertError,
    TargetError,
    ToolError,
    UnknownNameError,
    UnsupportedSyntaxError,
)
from workbench.source.kernels import KernelSource, kernel_source, register_text, source_lines
from workbench.source.parameters import Parameter
from workbench.source.spans import Source, Span, line_of, source_rows
from workbench.source.syntax import compiled, literal, parsed, parsed_expression

__all__ = [
    "ArgumentError",
    "CheckError",
    "CompileError",
    "ConstexprError",
    "KernelError",
    "KernelSource",
    "KernelTypeError",
    "LaunchError",
    "Note",
    "OptionError",
    "Parameter",
    "ResourceError",
    "ShapeError",
    "Source",
    "Span",
    "StaticAssertError",
    "TargetError",
    "ToolError",
    "UnknownNameError",
    "UnsupportedSyntaxError",
    "checking",
    "compiled",
    "deep",
    "kernel_source",
    "limit_of",
    "line_of",
    "literal",
    "over_budget",
    "parsed",
    "parsed_expression",
    "refused",
    "register_text",
    "seconds_of_loops",
    "shown",
    "source_lines",
    "source_rows",
]
