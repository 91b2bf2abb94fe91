"""The tutorial matmul with its loads raised by hand: input for passes that come after raising."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.passes.pipelines import tile_steps
from tests.targets.nvidia.test_odd_extents import staged
from workbench.ir import Builder, Module, Op, Tile, Value, rebuild
from workbench.ir.types import TensorMap
from workbench.ops import For, Load
from workbench.passes.manager import Recorder
from workbench.passes.narrow_index import narrow_index
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import MakeTensorMap, TensorLoad
from workbench.targets.nvidia.pipeline import _gpu_passes

SM_90A = chip("sm_90a")


def before_rings(module: Module) -> Module:
    """Return the GPU IR of a kernel before its loads are copied ahead."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    recorder = Recorder()
    options = {"num_warps": 4, "num_stages": 3, **module.attributes}
    final = narrow_index(replace(final, attributes=options), recorder.remarks)
    _gpu_passes(final, SM_90A, recorder)
    return next(r.after for r in recorder.passes if r.name == "hoist-invariants")


def raised(module: Module, kind: str = "nn") -> Module:
    """Raise the loads of a and b: the extents are M, N, K, the rest follows from the kernel."""
    given = {p.name: p.value for p in module.parameters}
    named = {value.hint: value for op in module.body.ops for value in op.results}

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if isinstance(op, For):
            counter = op.body.arguments[0]
            (k_step,) = {
                inner.operands[1]
                for inner in op.body.ops
                if inner.name == "tile.mul" and inner.operands[0] is counter
            }
            return _loop(op, builder, given, named, kind, k_step)
        return None

    return rebuild(module, rewrite)


def _loop(
    loop: For, builder: Builder, given: dict[str, Value], named: dict[str, Value], kind: str,
    k_step: Value,
) -> tuple[Value, ...]:  # fmt: skip
    from workbench.ir import Block, copy_op
    from workbench.ops import Elementwise

    rows, columns = named["offs_cm"].op, named["offs_cn"].op
    assert rows is not None
    assert columns is not None
    starts = {"M": rows.operands[0].op.operands[0], "N": columns.operands[0].op.operands[0]}  # type: ignore[union-attr]
    maps: dict[str, tuple[Value, tuple[int, ...]]] = {}
    for name, axes, turned in (
        ("a", ("M", "K"), kind[0] == "t"),
        ("b", ("K", "N"), kind[1] == "t"),
    ):
        load = next(op for op in loop.body.ops if isinstance(op, Load) and op.result.hint == name)
        type = load.result.type
        assert isinstance(type, Tile)
        order = (1, 0) if turned else (0, 1)
        box = tuple(type.shape[axis] for axis in order)
        stride = given[{"an": "stride_am", "at": "stride_ak", "bn": "stride_bk", "bt": "stride_bn"}[
            name + ("t" if turned else "n")]]  # fmt: skip
        extents = tuple(given[axes[axis]] for axis in order)
        made = MakeTensorMap(
            given[f"{name}_ptr"], extents, (stride,), type=TensorMap(box, type.element)
        )
        maps[name] = builder.add(made), order
    values: dict[Value, Value] = {a: a for a in loop.body.arguments}
    with builder.block() as body:
        k = builder.add(Elementwise("mul", (loop.body.arguments[0], k_step), no_wrap=True))
        for op in loop.body.ops:
            name = op.result.hint if isinstance(op, Load) else ""
            if name in maps:
                map_, order = maps[name]
                where = {"a": (starts["M"], k), "b": (k, starts["N"])}[name]
                tile: Any = op.result.type
                loaded = TensorLoad(
                    map_, tuple(where[axis] for axis in order), axes=order, type=tile,
                    span=op.span, origins=(op.id,),
                )  # fmt: skip
                values[op.result] = builder.add(loaded, name)
            else:
                builder.insert(copy_op(op, values, builder))
    new = builder.insert(loop.changed(body=Block(loop.body.arguments, tuple(body))))
    return new.results


def raised_matmul(m: int, n: int, k: int, warps: int, kind: str = "nn", **options: Any) -> Module:
    """Return the GPU IR of the matmul with tensor loads in its loop."""
    module = staged(m, n, k, warps, kind, **options)
    module = raised(before_rings(module), kind)
    return replace(module, attributes={**module.attributes, "warp_specialize": True})
