"""From a kernel's source and specialisation to verified tile IR."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import replace
from typing import Any

from workbench.frontend.activation import RETURN, Activation, ErrorLimitError, Session
from workbench.frontend.calls import call_function
from workbench.frontend.observing import Observer
from workbench.frontend.specialization import Argument, Options, Specialization, type_of
from workbench.frontend.statements import flag, lower_block
from workbench.ir import (
    BF16,
    F16,
    F32,
    I32,
    INDEX,
    Block,
    Builder,
    KernelParameter,
    Module,
    Pointer,
    Scalar,
    Type,
    Value,
    verify_module,
)
from workbench.language.constexprs import unwrap
from workbench.language.state import State, lowering
from workbench.language.values import (
    tensor,
    wrap,
)
from workbench.ops import Cast, Return
from workbench.passes.manager import Remarks
from workbench.source import (
    ArgumentError,
    KernelSource,
    Parameter,
    Span,
    source_rows,
)
from workbench.source.budgets import check_value


def lower_kernel(
    source: KernelSource,
    specialization: Specialization,
    remarks: Remarks,
    observer: Observer | None = None,
) -> Module:
    """Return the kernel's tile IR, verified.

    An int32 argument becomes an `index` parameter (passed as 32 bits, used exactly); with
    `wrap_index` it stays `i32`. Raises a CompileError whose `others` are the further errors found.
    With an `observer` the kernel is only looked at, see `observing`: it may lack statements.
    """
    options = specialization.options
    builder = Builder()
    state = State(
        builder,
        call=lambda function, args: None,
        remark=lambda text: None,
        exact_index=not options.wrap_index,
        wrap_loaded=options.wrap_loaded,
        exact=options.exact,
        debug=options.debug,
        target=options.target,
        num_warps=options.num_warps,
    )
    session = Session(builder, remarks, state, observer)
    state.remark = session.remark
    state.call = call_function(session)
    act = Activation(session, source, is_kernel=True)
    parameters: list[Any] = []

    def lower() -> None:
        parameters.extend(_parameters(act, specialization))
        act.scope[RETURN] = flag(False)
        with suppress(ErrorLimitError):
            lower_block(act, source.tree.body)
        if session.errors:
            first, *others = session.errors
            first.others = tuple(others)
            raise first
        act.at(source.tree.body[-1])
        builder.insert(Return())

    lowering(state, lower)
    body = Block((), tuple(builder.ops))
    if options.num_ctas > 1:
        remarks.note(
            None,
            f"num_ctas={options.num_ctas}: a program is one block here, with the same result; "
            "what programs beside each other both read, blocks copy together (cluster)",
            "missed",
        )
    options = replace(options, num_warps=state.num_warps)
    module = Module(source.name, tuple(parameters), body, _attributes(options), builder.next_id)
    verify_module(module)
    return module


def _attributes(options: Options) -> dict[str, Any]:
    """Return the options as module attributes; what is unset or at its default stays out."""
    always = {"num_warps": options.num_warps, "num_stages": options.num_stages}
    found = {name: value for name, value in always.items() if value is not None}
    found |= {"num_ctas": options.num_ctas, "enable_fp_fusion": options.enable_fp_fusion}
    if options.maxnreg is not None:
        found["maxnreg"] = options.maxnreg
    found |= options.asked
    for name in ("exact", "wrap_index", "wrap_loaded", "debug", "narrow_index"):
        found[name] = getattr(options, name)
    return found


# -- parameters -----------------------------------------------------------------------------
def _parameters(act: Activation, specialization: Specialization) -> tuple[KernelParameter, ...]:
    source = act.source
    source.refuse_variadic()
    given = dict(specialization.arguments)
    known = {p.name for p in source.parameters}
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"{source.name} has no parameter '{name}'",
                _head(act),
                hint=f"its parameters are {', '.join(p.name for p in source.parameters)}",
            )
    parameters: list[KernelParameter] = []
    for parameter in source.parameters:
        argument = given.get(parameter.name)
        if argument is None:
            argument = _default(act, parameter)
        if parameter.is_constexpr:
            act.constexprs.add(parameter.name)
        act.scope[parameter.name] = _argument(act, parameter, parameter.name, argument, parameters)
        if act.session.observer is not None:
            node = next(n for n in _arguments_of(source) if n.arg == parameter.name)
            act.saw(node, act.scope[parameter.name])
    return tuple(parameters)


def _arguments_of(source: KernelSource) -> list[ast.arg]:
    given = source.tree.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _head(act: Activation) -> Span:
    """Return the place of the kernel's signature: its first line."""
    tree = act.source.tree
    span = act.span(tree)
    text = source_rows(act.source.text)[tree.lineno - 1] if tree.lineno else ""
    return Span(
        span.file, span.line, span.column, span.line, act.source.indent + len(text.rstrip()) + 1
    )


def _default(act: Activation, parameter: Parameter) -> Argument:
    if not parameter.required:
        return Argument(None, unwrap(parameter.default))
    name = parameter.name
    if parameter.is_constexpr:
        raise ArgumentError(
            f"{act.source.name} is missing the constexpr '{name}'",
            _head(act),
            hint=f"give it a value: {name}=... in the launch, or --set {name}=...",
        )
    raise ArgumentError(
        f"{act.source.name} is missing the argument '{name}'",
        _head(act),
        hint="give every argument a type or a value",
    )


def _argument(
    act: Activation,
    parameter: Parameter,
    name: str,
    argument: Argument,
    parameters: list[KernelParameter],
) -> Any:
    """Return what a parameter holds; run-time values become module parameters."""
    if argument.items is not None:
        items = [
            _argument(act, parameter, f"{name}.{i}", item, parameters)
            for i, item in enumerate(argument.items)
        ]
        made = argument.value  # a namedtuple's class, or a descriptor's kind
        return made(*items) if callable(made) else tuple(items)
    if argument.type is None:
        act.builder.span = _head(act)
        return check_value(unwrap(argument.value), f"'{name}' has")
    if parameter.is_constexpr:
        raise ArgumentError(
            f"'{name}' of {act.source.name} is a constexpr, it got a run-time {argument.type}",
            _head(act),
            hint=f"give its value: {name}=...",
            code="K210",
        )
    wanted = _parameter_type(act, parameter, argument)
    # As in Triton a scalar of 16 bits is handed over in fp32: launchers have no such numbers.
    short = isinstance(wanted, Scalar) and wanted in (F16, BF16)
    value = Value(F32 if short else wanted, name)
    facts = argument.divisible, argument.low, argument.high, argument.noalias
    parameters.append(KernelParameter(name, value, *facts))
    if isinstance(wanted, Scalar) and short:
        act.at(act.source.tree.body[0])
        value = act.builder.add(Cast(value, wanted))
    made_tensor: tensor = wrap(value)
    made_tensor.name = name
    return made_tensor


def _parameter_type(act: Activation, parameter: Parameter, argument: Argument) -> Type:
    assert argument.type is not None
    given = type_of(argument.type)
    if given == I32 and act.session.state.exact_index:
        return INDEX
    if isinstance(given, Pointer) and parameter.is_const:
        return Pointer(given.pointee, True)
    return given
