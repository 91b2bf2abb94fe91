"""What a kernel is looked at with: types of arguments, values of constexprs, compile options.

In the order of who knows best: the option line (`--sig`, `--args`, `--set`, the first value of
`--tune`), a launch of it in the cell's own code, annotations and defaults, its latest launch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workbench.frontend.activation import POISON
from workbench.frontend.observing import may_run
from workbench.launch.binding import Call, classify
from workbench.launch.options import DEFAULTS, SHORT_FORMS, check_options
from workbench.launch.signature import read_word
from workbench.magics import registry
from workbench.magics.options import Request
from workbench.magics.values import Expression, split_top_level
from workbench.magics.while_typing.functions import decorators_of
from workbench.magics.while_typing.known import UnknownError, carefully, is_array
from workbench.source import KernelError, KernelSource, Parameter, parsed_expression
from workbench.source.arguments import Argument, constant

Known = dict[str, Argument]


def arguments_for(
    source: KernelSource,
    request: Request,
    node: ast.FunctionDef,
    tree: ast.Module,
    names: Mapping[str, Any],
) -> tuple[tuple[tuple[str, Argument], ...], dict[str, Any]]:
    """Return what is known of each parameter (unknown ones hold POISON), and the options."""
    values, options = _settings(request, names, source)
    launched, chosen = _launch_in_cell(node.name, tree, names, source)
    given = launched | _configured(node, names) | values
    options = {**chosen, **options}
    known: Known = _last_launch(source)
    for parameter in source.parameters:
        if parameter.type is not None:
            known[parameter.name] = Argument(parameter.type)
        elif parameter.has_default:
            known[parameter.name] = constant(parameter.default)
    known |= _signed(source, request, given)
    given = _passed(source, request, names) | given
    for parameter in source.parameters:
        if parameter.name in given:
            found = _argument(source, parameter, given[parameter.name])
            if found is not None:
                known[parameter.name] = found
    unknown = constant(POISON)
    for name, argument in known.items():
        if argument.is_constant and may_run(argument.value):
            known[name] = unknown
    return tuple((p.name, known.get(p.name, unknown)) for p in source.parameters), options


def _argument(source: KernelSource, parameter: Parameter, value: Any) -> Argument | None:
    """Return what a launch would find out of a value; None where it would refuse it."""
    if may_run(value) and not is_array(value):
        return None
    call = Call({parameter.name: value}, {}, {})
    try:
        classify(source, [parameter], call)
    except KernelError:
        return None
    return call.known[0][1]


# -- the option line --------------------------------------------------------------------------
def careful_text(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression given as text; raises UnknownError."""
    try:
        node = parsed_expression(text.strip())
    except SyntaxError as error:
        raise UnknownError from error
    return carefully(node, names)


def _settings(
    request: Request, names: Mapping[str, Any], source: KernelSource
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the constexprs and the options that an option line gives."""
    said = [(axis.name, split_top_level(axis.spec.text, ",")[0]) for axis in request.tune]
    said += [(name, value.text) for name, value in request.settings]
    parameters = {p.name for p in source.parameters}
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for word, text in said:
        name = word if word in parameters else SHORT_FORMS.get(word, word)
        try:
            (values if name in parameters else options)[name] = careful_text(text, names)
        except UnknownError:
            continue
    return values, checked_options(options)


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some options that are right."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        try:
            found |= dict(check_options({name: value}))
        except (KernelError, TypeError):
            continue
    return found


def signed_parameters(source: KernelSource, constants: Iterable[str]) -> list[Parameter]:
    """Return the parameters that the words of `--sig` are for, in order."""
    return [p for p in source.parameters if not p.is_constexpr and p.name not in constants]


def _signed(source: KernelSource, request: Request, constants: Iterable[str]) -> Known:
    if request.sig is None:
        return {}
    runtime = signed_parameters(source, constants)
    found: Known = {}
    for parameter, word in zip(runtime, request.sig.replace(",", " ").split(), strict=False):
        try:
            found[parameter.name] = read_word(word)
        except KernelError:
            continue
    return found


def argument_texts(expression: Expression) -> list[str]:
    """Return the expressions of `--args`."""
    texts = [text.strip() for text in split_top_level(expression.text, ",")]
    return texts[:-1] if texts and not texts[-1] else texts


def _passed(source: KernelSource, request: Request, names: Mapping[str, Any]) -> dict[str, Any]:
    if request.args is None or request.args.is_object:
        return {}
    runtime = [p.name for p in source.parameters if not p.is_constexpr]
    found: dict[str, Any] = {}
    for name, text in zip(runtime, argument_texts(request.args), strict=False):
        try:
            found[name] = careful_text(text, names)
        except UnknownError:
            continue
    return found


# -- the cell's own code ----------------------------------------------------------------------
def _configured(node: ast.FunctionDef, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constexprs of the first configuration of `@autotune`."""
    for word, decorator in decorators_of(node):
        if word != "autotune":
            continue
        for call in ast.walk(decorator):
            if isinstance(call, ast.Call) and _last_word(call.func) == "Config" and call.args:
                return _literal_dict(call.args[0], names)
    return {}


def _last_word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _literal_dict(node: ast.expr, names: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                try:
                    found[str(key.value)] = carefully(value, names)
                except UnknownError:
                    continue
    return found


def _launch_in_cell(
    name: str, tree: ast.Module, names: Mapping[str, Any], source: KernelSource
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments and options of the last `kernel[grid](...)` in the cell's own code."""
    parameters = [p.name for p in source.parameters]
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for call in _launches(name, tree):
        positional = zip(parameters, call.args, strict=False)
        named = ((keyword.arg or "", keyword.value) for keyword in call.keywords)
        for word, node in (*positional, *named):
            try:
                (values if word in parameters else options)[word] = carefully(node, names)
            except UnknownError:
                continue
    return values, checked_options({n: v for n, v in options.items() if n in DEFAULTS})


def _launches(name: str, tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=called))) if called == name:
                if not any(isinstance(argument, ast.Starred) for argument in node.args):
                    yield node
            case _:
                pass


# -- what was run before ----------------------------------------------------------------------
def _last_launch(source: KernelSource) -> Known:
    """Return what the kernel of this name was compiled for last, by parameter name."""
    result = registry.latest(source.name)
    compiled = next((r.compiled for r in result.records if r.compiled), None) if result else None
    if compiled is None:
        return {}
    before = dict(compiled.signature.arguments)
    constexprs = {p.name for p in source.parameters if p.is_constexpr}
    return {
        name: known for name, known in before.items() if known.is_constant or name not in constexprs
    }
