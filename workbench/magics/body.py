"""Run a cell's body as ordinary Python, and find the kernels it bound.

The body is executed in the user's namespace under the cell's file name, padded so that its line
numbers equal those of the cell (the magic line is line 1), and registered in linecache, so that
tracebacks, `inspect.getsource` and the front end see the text. Imports of `triton` in it resolve
to our modules, whether Triton is installed or not; nothing outside the cell changes.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.source import (
    CompileError,
    Span,
    UnknownNameError,
    compiled,
    deep,
    parsed,
    parsed_expression,
    register_text,
)

OURS = "workbench.triton"


@dataclass(frozen=True, slots=True)
class Body:
    """What executing a cell's body left behind.

    `bound` maps each name that the body bound to its value, in order of its last binding;
    `before` holds what those names meant earlier (absent: nothing).
    """

    tree: ast.Module
    bound: dict[str, Any]
    before: dict[str, Any]
    imports_triton: bool

    def restore(self, namespace: dict[str, Any], names: list[str]) -> None:
        """Give names their earlier meaning back."""
        for name in names:
            if name in self.before:
                namespace[name] = self.before[name]
            else:
                namespace.pop(name, None)


def execute(text: str, body: str, first_line: int, file: str, namespace: dict[str, Any]) -> Body:
    """Execute a body that starts at line `first_line` of a cell with the given whole text."""
    register_text(file, text)
    tree = _parsed("\n" * (first_line - 1) + body, file)
    names = list(dict.fromkeys(bound_names(tree)))
    before = {name: namespace[name] for name in names if name in namespace}
    imports_triton = any(_is_triton_import(node) for node in ast.walk(tree))
    if imports_triton:
        check_imports(tree, file)
        tree = deep(_with_our_imports)(tree)
    for function in undecorated_kernels(tree):
        function.decorator_list.append(_decorator(function))
    exec(compiled(tree, file), namespace)
    bound = {name: namespace[name] for name in names if name in namespace}
    return Body(tree, bound, before, imports_triton)


def _parsed(text: str, file: str) -> ast.Module:
    """Parse a body; raises CompileError K219 where it is no Python."""
    try:
        tree = parsed(text, file)
        compiled(tree, file)  # finds what the grammar alone does not, e.g. `break` outside
    except SyntaxError as error:
        line, column = error.lineno or 1, max(1, error.offset or 1)
        ends_there = error.end_lineno == line and (error.end_offset or 0) > column
        end = error.end_offset if ends_there else column + 1
        span = Span(file, line, column, line, end or column + 1)
        raise CompileError(f"this is not Python: {error.msg}", span, code="K219") from None
    return tree


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that top-level code of a module binds, in order, the latest binding last."""
    found: list[str] = []
    for node in _own_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.append(node.name)
            case ast.Name(ctx=ast.Store()):
                found.append(node.id)
            case ast.Import() | ast.ImportFrom():
                found += [alias.asname or alias.name.split(".")[0] for alias in node.names]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.append(name)
    # A name bound twice counts where it was bound last.
    yield from reversed(list(dict.fromkeys(reversed(found))))


def _own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that do not stand inside a function, class or comprehension."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.comprehension)
    left = [*ast.iter_child_nodes(tree)][::-1]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, inner):
            left += [*ast.iter_child_nodes(node)][::-1]


def uses_language(function: ast.FunctionDef, language: str = "tl") -> bool:
    """Whether a function uses `tl.something`, in its body or to annotate a parameter."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    annotations = [p.annotation for p in parameters if p.annotation is not None]
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == language
        for part in (*function.body, *annotations)
        for node in ast.walk(part)
    )


def device_functions(tree: ast.Module) -> list[str]:
    """Return the top-level functions that use `tl.`, and the ones those call, in order."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = [name for name, node in functions.items() if uses_language(node)]
    reached = list(found)
    while reached:
        called = {
            node.func.id
            for node in ast.walk(functions[reached.pop()])
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for name in called & set(functions) - set(found):
            found.append(name)
            reached.append(name)
    return [name for name in functions if name in found]


def undecorated_kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions that a cell launches, and that those call, where it decorates none.

    They become kernels when they are defined, as those of a cell that launches nothing do after it.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if any(function.decorator_list for function in functions):
        return []
    found = _launched_names(tree) & set(device_functions(tree))
    by_name = {function.name: function for function in functions}
    reached = list(found)
    while reached:
        called = {
            call.func.id
            for call in ast.walk(by_name[reached.pop()])
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        new = called & by_name.keys() - found
        found |= new
        reached += new
    return [function for function in functions if function.name in found]


def _launched_names(tree: ast.AST) -> set[str]:
    """Return the names that a tree calls as `name[…](…)`."""
    return {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and isinstance(node.func.value, ast.Name)
    }


def _decorator(function: ast.FunctionDef) -> ast.expr:
    """Return `triton.jit`, by no name that the cell may have bound otherwise."""
    text = f"__import__({OURS!r}, fromlist=['jit']).jit"
    made = parsed_expression(text)
    for node in ast.walk(made):
        ast.copy_location(node, function)
    return made


def last_entry(tree: ast.Module, kernels: Collection[str] | None = None) -> str | None:
    """Return the last top-level function that uses `tl.` and that no other of them calls.

    `kernels` names those that count, where that is known.
    """
    users = [n for n in tree.body if isinstance(n, ast.FunctionDef) and uses_language(n)]
    users = [user for user in users if kernels is None or user.name in kernels]
    called = {
        call.func.id
        for user in users
        for call in ast.walk(user)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id != user.name
    }
    names = [user.name for user in users]
    entries = [name for name in names if name not in called] or names
    return entries[-1] if entries else None


def _is_triton(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == "triton"


def _is_triton_import(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return any(_is_triton(alias.name) for alias in node.names)
        case ast.ImportFrom(level=0):
            return _is_triton(node.module)
        case _:
            return False


def _ours(module: str) -> str:
    """Return the name of our module: under another one Python would load it a second time."""
    from workbench.triton.installing import MODULES

    return MODULES.get(module, OURS + module.removeprefix("triton"))


def _with_our_imports(tree: ast.Module) -> ast.Module:
    return ast.fix_missing_locations(_TritonImports().visit(tree))


class _TritonImports(ast.NodeTransformer):
    """Bind what `triton` imports name to our modules."""

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for alias in node.names:
            if not _is_triton(alias.name):
                result.append(ast.Import([alias]))
            elif alias.asname:
                result.append(ast.Import([ast.alias(_ours(alias.name), alias.asname)]))
            else:
                # `import triton.language` binds `triton` and loads the submodule.
                load = ast.Call(
                    ast.Name("__import__", ast.Load()), [ast.Constant(_ours(alias.name))], []
                )
                result.append(ast.Expr(load))
                result.append(ast.Import([ast.alias(OURS, "triton")]))
        return [ast.copy_location(statement, node) for statement in result]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if not _is_triton_import(node) or node.module is None:
            return node
        return ast.copy_location(ast.ImportFrom(_ours(node.module), node.names, 0), node)


def check_imports(tree: ast.Module, file: str) -> None:
    """Raise one error that lists every imported triton name that we do not have.

    Imports inside a `try` are left alone: such code handles a missing name itself.
    """
    errors: list[UnknownNameError] = []
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded or not _is_triton_import(node):
            continue
        if isinstance(node, ast.Import):
            wanted = [(alias.name, None, alias) for alias in node.names if _is_triton(alias.name)]
        else:
            assert isinstance(node, ast.ImportFrom)
            assert node.module is not None
            wanted = [(node.module, alias.name, alias) for alias in node.names]
        for module, name, alias in wanted:
            if not _importable(module, name):
                full = module if name is None else f"{module}.{name}"
                errors.append(
                    UnknownNameError(
                        f"'{full}' has no counterpart here",
                        _span(alias, file),
                        hint="remove the import if the cell does not need it",
                    )
                )
    if errors:
        errors[0].others = tuple(errors[1:20])
        raise errors[0]


def _importable(module: str, name: str | None) -> bool:
    try:
        found = importlib.import_module(_ours(module))
    except ImportError:
        return False
    if name in (None, "*") or hasattr(found, str(name)):
        return True
    return _importable(f"{module}.{name}", None)


def _span(node: ast.alias, file: str) -> Span:
    return Span(
        file,
        node.lineno,
        node.col_offset + 1,
        node.end_lineno or node.lineno,
        (node.end_col_offset or node.col_offset) + 1,
    )
