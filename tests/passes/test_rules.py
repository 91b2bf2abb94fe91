"""Every rewrite rule does what its identity says, and what it did is in the Trace."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from tests.passes.identities import function_of, module_of, sides, swapped
from tests.passes.test_docstrings import renamed
from workbench.ir import Module, Pointer, Value, element_of, parse_module, shape_of, verify_module
from workbench.magics.texts import Request, passes_text
from workbench.ops import FUNCTIONS, DevicePrint, Elementwise
from workbench.ops.numbers import round_to
from workbench.passes.canonicalize import canonicalize
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.rules import RULES, Rule, RuleTable
from workbench.passes.tracing import Places, add_ops, add_passes
from workbench.source import KernelError
from workbench.trace import Kernel, Made, TraceBuilder, from_json, problems, to_json

by_name = pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.name)


def printed(module: Module) -> Value:
    """Return the value that an identity's kernel prints."""
    (op,) = (op for op in module.body.ops if isinstance(op, DevicePrint))
    return op.values[0]


def rewritten(module: Module, rules: RuleTable) -> tuple[Module, list[tuple[Rule, int]]]:
    """Return what the rules make of a kernel, and what was recorded."""
    verify_module(module)
    remarks = Remarks()
    after = canonicalize(module, remarks, rules)
    verify_module(after)
    return after, remarks.rules


class Frame(dict[Value, np.ndarray]):
    """What ops without effects need of a frame: the values of operands, and running regions."""

    def round(self, op):
        """A loop may go round as often as it likes."""

    def run(self, block, arguments):
        self.update(zip(block.arguments, arguments, strict=True))
        return self.compute(block.ops)

    def compute(self, ops):
        """Run ops up to a print or the end of a region; return the operands of that."""
        for op in ops:
            if isinstance(op, DevicePrint) or op.ends_block:
                return tuple(self[v] for v in op.operands)
            found = op.interpret(self)
            self.update(
                zip(op.results, found if isinstance(found, tuple) else (found,), strict=True)
            )
        raise AssertionError("a block without an end")


def samples(value: Value, seed: int) -> np.ndarray:
    """Return numbers of all signs and sizes, ties and infinities in a value's type."""
    random, element, shape = (
        np.random.default_rng(seed),
        element_of(value.type),
        shape_of(value.type),
    )
    if isinstance(element, Pointer):
        return np.full(shape, 1 << 20, np.int64)
    if element.is_float:
        numbers = random.choice([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e4], shape)
    else:
        numbers = random.integers(-(1 << 40), 1 << 40, shape)
    return round_to(np.asarray(numbers), element)


def meaning(module: Module, seed: int) -> bytes:
    """Return the bits that the printed value has for some arguments."""
    frame = Frame()
    for number, parameter in enumerate(module.parameters):
        frame[parameter.value] = samples(parameter.value, seed * 10 + number)
    with np.errstate(all="ignore"):
        (value,) = frame.compute(module.body.ops)
    value = np.broadcast_to(value, shape_of(printed(module).type)).copy()
    if value.dtype.kind == "f":
        value[np.isnan(value)] = np.nan
    return value.tobytes()


@by_name
def test_a_rule_makes_the_right_side_of_its_identity_out_of_the_left(rule: Rule):
    left, right = sides(rule)
    before = module_of(left, rule.given)
    wanted = module_of(right, rule.given, printed(before).type)
    after, applied = rewritten(before, RuleTable([rule]))
    assert [found for found, _ in applied] == [rule]
    assert renamed(after) == renamed(wanted)
    for seed in range(20):
        assert meaning(before, seed) == meaning(wanted, seed) == meaning(after, seed)


@by_name
def test_no_earlier_rule_takes_what_a_rule_is_about(rule: Rule):
    before = module_of(sides(rule)[0], rule.given)
    _, applied = rewritten(before, RULES)
    assert rule in [found for found, _ in applied]


@pytest.mark.parametrize(
    "rule",
    [r for r in RULES.rules if any(FUNCTIONS[f].commutes for f in r.functions)],
    ids=lambda rule: rule.name,
)
def test_a_rule_of_a_function_that_commutes_holds_with_the_operands_swapped(rule: Rule):
    left, right = sides(rule)
    before = module_of(swapped(left), rule.given)
    after, applied = rewritten(before, RuleTable([rule]))
    assert [found for found, _ in applied] == [rule]
    assert renamed(after) == renamed(module_of(right, rule.given, printed(before).type))


TYPES = ("i1", "i8", "u8", "i32", "u64", "index", "f8e4m3", "f16", "bf16", "f32")


@by_name
def test_a_rule_keeps_every_bit_with_every_function_in_every_type(rule: Rule):
    left, _ = sides(rule)
    name = function_of(left)
    two = [row.name for row in FUNCTIONS.values() if row.arity == 2]
    functions = rule.functions or (two if rule.op is Elementwise else [name])
    tried = 0
    for function, element in product(functions, TYPES):
        if element == "i1" and function and FUNCTIONS[function].takes == "number":
            continue
        given = re.sub(r"\b(i8|u8|i32|f32|f16)\b", element, rule.given)
        try:
            before = module_of(left, given, instead={name: function})
        except KernelError:  # the function does not take the type
            continue
        tried += 1
        after, _ = rewritten(before, RuleTable([rule]))
        for seed in range(5):
            assert meaning(before, seed) == meaning(after, seed), f"{function} of {element}"
    assert tried


def test_names_of_rules_are_unique():
    rule = RULES.rules[0]
    assert len({r.name for r in RULES.rules}) == len(RULES.rules)
    with pytest.raises(TypeError, match=rule.name):
        RuleTable([rule, rule])


KERNEL = """
kernel @scaled(%out: ptr<f32>, %x: f32, %n: index) {
  %zero = tile.constant {value = 0, type = index} : index
  %one = tile.constant {value = 1.0, type = f32} : f32
  %a = tile.mul [%x, %one] : f32
  %b = tile.mul [%a, %one] : f32
  %i = tile.add [%n, %zero] : index
  %p = tile.add_pointer %out, %i : ptr<f32>
  tile.store %p, %b
  tile.return
}
"""


def test_a_trace_says_which_rules_a_pass_applied_at_which_ops():
    module = parse_module(KERNEL)
    recorder = Recorder()
    recorder.pipeline([("canonicalize", canonicalize), ("again", canonicalize)], module, "tile")
    kernel = Kernel(name="scaled", entry="scaled", file="", target="interpreter")
    builder = TraceBuilder(kernel=kernel, made=Made(workbench="0"))
    add_passes(builder, recorder)
    add_ops(builder, Places(builder), module, recorder)
    trace = builder.finish().trace
    first, second = trace.passes
    ids = {op.results[0].hint: op.id for op in module.walk() if op.results}
    assert [(found.name, found.identity, found.ops) for found in first.rules] == [
        ("multiply-by-one", "x * 1 = x", (ids["a"], ids["b"])),
        ("add-zero", "x + 0 = x", (ids["i"],)),
    ]
    assert second.rules == ()
    assert trace.remarks == ()
    assert list(problems(trace)) == []
    assert from_json(to_json(trace)) == trace
    assert "2 × multiply-by-one: x * 1 = x" in passes_text(trace, "canonicalize", Request())
