"""`triton.compiler.code_generator`: what walks a kernel's syntax tree in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "triton.compile(triton.compiler.ASTSource(...)) compiles a kernel"
ast_to_ttir = only_raises("triton.compiler.code_generator", _INSTEAD)
CodeGenerator = only_raises("triton.compiler.code_generator", _INSTEAD)

__all__ = ["CodeGenerator", "ast_to_ttir"]
