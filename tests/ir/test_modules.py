"""Rules of the IR: ids, the verifier, and what a rebuild keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests.passes.corpus import cases as corpus
from tests.passes.meaning import cases
from tests.passes.programs import modules
from workbench.ir import (
    DROP,
    F32,
    F64,
    Block,
    Builder,
    InvalidModuleError,
    Module,
    Op,
    Value,
    parse_module,
    print_module,
    rebuild,
    verify_module,
)
from workbench.ops import Constant, Elementwise, For, Load
from workbench.source import KernelError

TEXT = """kernel @k(%x: ptr<f32>, %n: index) {
  %zero = tile.constant {value = 0, type = index} : index
  %one = tile.constant {value = 1, type = index} : index
  %init = tile.constant {value = 0.0, type = f32} : f32
  %sum = tile.for %zero, %n, %one, [%init] {
  ^(%k: index, %a: f32):
    %v = tile.load %x : f32
    %b = tile.add [%a, %v] : f32
    tile.yield [%b]
  } : f32
  tile.store %x, %sum
  tile.return
}
"""


def ops_of(module: Module) -> dict[str, Op]:
    return {op.results[0].hint if op.results else op.name: op for op in module.walk()}


# -- ids --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", corpus()[:4] + corpus()[8:10], ids=lambda case: case.name)
def test_the_front_end_gives_every_op_an_id_of_its_own_below_the_next(case):
    module = case.module()
    ids = [op.id for op in module.walk()]
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 1
    assert max(ids) < module.next_id
    assert ids == [op.id for op in case.module().walk()]  # the same in every run


@given(modules())
@cases(20)
def test_read_ids_ascend_in_program_order(module: Module):
    again = parse_module(print_module(module))
    ids = [op.id for op in again.walk()]
    assert ids == list(range(1, len(ids) + 1))
    assert again.next_id == len(ids) + 1


# -- other operands ---------------------------------------------------------------------------
def test_an_op_that_reads_others_of_the_same_types_gives_what_it_gave(
    monkeypatch: pytest.MonkeyPatch,
):
    op = ops_of(parse_module(TEXT))["b"]
    a, b = Value(F32), Value(F32)
    monkeypatch.setattr(Elementwise, "verify", lambda op: pytest.fail("nothing is to be verified"))
    other = op.changed(inputs=(a, b))
    assert (other.operands, other.id, other.span) == ((a, b), op.id, op.span)
    assert [(r.type, r.hint, r.op, r.index) for r in other.results] == [(F32, "b", other, 0)]
    assert op.operands != other.operands
    with pytest.raises(pytest.fail.Exception):
        op.changed(inputs=(a, b), function="mul")


def test_an_op_that_reads_other_types_is_verified_and_gives_other_ones():
    op = ops_of(parse_module(TEXT))["b"]
    assert op.changed(inputs=(Value(F64), Value(F64))).result.type == F64
    with pytest.raises(KernelError):
        op.changed(inputs=(Value(F64), Value(F32)))


# -- verifier ---------------------------------------------------------------------------------
def planted(**changes: object) -> Module:
    module = parse_module(TEXT)
    verify_module(module)
    return replace(module, **changes)


def with_body(change) -> Module:
    """Return the module with the ops of its body changed."""
    module = parse_module(TEXT)
    return replace(module, body=Block((), tuple(change(list(module.body.ops)))))


def test_a_use_before_its_definition_is_found():
    with pytest.raises(InvalidModuleError, match=r"reads %zero.* before it exists"):
        verify_module(with_body(lambda ops: [*ops[1:4], ops[0], *ops[4:]]))


def test_a_value_of_an_inner_region_is_not_known_outside():
    def leak(ops: list[Op]) -> list[Op]:
        inner = ops[3].regions[0].ops[1].results[0]
        leaked = Elementwise("neg", (inner,))
        leaked.__dict__["id"] = 99
        return [*ops[:4], leaked, *ops[4:]]

    module = with_body(leak)
    with pytest.raises(InvalidModuleError, match="before it exists"):
        verify_module(replace(module, next_id=100))


def test_an_id_used_twice_is_found():
    def twice(ops: list[Op]) -> list[Op]:
        ops[1].__dict__["id"] = ops[0].id
        return ops

    with pytest.raises(InvalidModuleError, match="which is taken or none"):
        verify_module(with_body(twice))


def test_an_op_without_an_id_is_found():
    extra = Constant(1.0, F32)
    with pytest.raises(InvalidModuleError, match="has the id 0"):
        verify_module(with_body(lambda ops: [extra, *ops]))


def test_an_id_that_is_still_to_be_given_out_is_found():
    with pytest.raises(InvalidModuleError, match="still to be given out"):
        verify_module(planted(next_id=3))


def test_an_empty_region_is_found():
    with pytest.raises(InvalidModuleError, match="a region is empty"):
        verify_module(planted(body=Block()))


def test_an_op_whose_operands_do_not_fit_is_found():
    def swap(ops: list[Op]) -> list[Op]:
        store = ops[4]
        fields = store.__dict__
        fields["pointers"], fields["value"] = fields["value"], fields["pointers"]
        fields["operands"] = fields["operands"][::-1]
        return ops

    with pytest.raises(KernelError, match="holds no pointers"):
        verify_module(with_body(swap))


# -- rebuild ----------------------------------------------------------------------------------
def test_a_rebuild_that_changes_nothing_returns_the_module():
    module = parse_module(TEXT)
    assert rebuild(module, lambda op, builder: None) is module


def test_an_op_with_new_operands_keeps_its_id_and_place():
    module = parse_module(TEXT)

    def rewrite(op: Op, builder: Builder) -> Op | None:
        return Constant(2.0, F32) if isinstance(op, Constant) and op.type == F32 else None

    after = rebuild(module, rewrite)
    verify_module(after)
    old, new = ops_of(module), ops_of(after)
    assert new["init"].id == module.next_id
    assert new["init"].origins == (old["init"].id,)
    assert new["init"].span == old["init"].span
    loop = new["sum"]
    assert isinstance(loop, For)
    assert (loop.id, loop.span) == (old["sum"].id, old["sum"].span)
    assert loop.inits == (new["init"].results[0],)
    assert loop.body is old["sum"].regions[0]  # what did not change is shared
    assert after.next_id == module.next_id + 1


def test_ops_that_a_rewrite_inserts_come_from_the_op_it_rewrites():
    module = parse_module(TEXT)

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if not isinstance(op, Load):
            return None
        again = builder.insert(Load(op.pointers, volatile=True)).results[0]
        return builder.add(Elementwise("neg", (again,)))

    after = rebuild(module, rewrite)
    verify_module(after)
    load = ops_of(module)["v"]
    made = [op for op in after.walk() if op.id >= module.next_id]
    assert [op.name for op in made] == ["tile.load", "tile.neg"]
    assert {op.origins for op in made} == {(load.id,)}
    assert {op.span for op in made} == {load.span}
    assert made[1].results[0].hint == "v"  # the name goes on to what takes its place


def test_a_dropped_op_is_gone_and_the_others_stay():
    module = parse_module(TEXT)
    after = rebuild(module, lambda op, builder: DROP if op.name == "tile.store" else None)
    verify_module(after)
    gone = [op.id for op in module.walk() if op.name == "tile.store"]
    assert [op.id for op in after.walk()] == [op.id for op in module.walk() if op.id not in gone]


def test_an_op_never_changes():
    op = parse_module(TEXT).body.ops[0]
    with pytest.raises(AttributeError, match="immutable"):
        op.value = 3


def test_what_is_found_of_a_module_is_its_own() -> None:
    """Answers are kept by all that they depend on, and another module has none of them."""
    module = parse_module(TEXT)
    asked: list[int] = []

    def count(least: int) -> int:
        asked.append(least)
        return sum(op.id >= least for op in module.walk())

    found = [module.once(("count", least), lambda least=least: count(least)) for least in (0, 2, 0)]
    assert (found[0] == found[2], asked) == (True, [0, 2])
    other = replace(module, body=Block((), module.body.ops[-1:]))
    assert len([*other.walk()]) < len([*module.walk()])
    assert other.once(("count", 0), lambda: "asked again") == "asked again"
    with pytest.raises(ZeroDivisionError):
        module.once("error", lambda: 1 // 0)
    assert module.once("error", lambda: 1) == 1
