"""Ops know their place in the text; what nothing uses leaves no trace."""

import numpy as np

import workbench.language as tl
from tests.language.harness import (
    from_text,
    lowered,
    run,
)
from workbench.frontend import Options
from workbench.ir import F32, element_of
from workbench.ops import Cast, If, While


# -- places ---------------------------------------------------------------------------------
def test_every_op_has_a_place_and_helpers_have_their_call_chain():
    def half(x):
        return x * 0.5

    def kernel(out, n):
        value = half(n)
        tl.store(out, value)

    module, _ = lowered(kernel, out=np.zeros(1, np.float32), n=3)
    assert all(op.span is not None for op in module.walk())
    (product,) = [op for op in module.walk() if op.name == "tile.mul"]
    line = half.__code__.co_firstlineno
    assert (product.span.line, product.span.column, product.span.end_column) == (line + 1, 16, 23)
    (call,) = product.span.calls
    assert call.line == kernel.__code__.co_firstlineno + 1
    assert (call.column, call.end_column) == (17, 24)


def test_columns_count_characters_not_bytes():
    kernel = from_text("""
        def kernel(out):
            tl.static_print("größe", end=""); tl.store(out, 1.0)
    """)
    module, _ = lowered(kernel, out=np.zeros(1, np.float32))
    (store,) = [op for op in module.walk() if op.name == "tile.store"]
    assert store.span.column == 5 + len('tl.static_print("größe", end=""); ')


def test_unused_merges_and_flags_leave_no_trace():
    def kernel(out, n):
        if n > 3:
            return
        tl.store(out, n)

    module, _ = lowered(kernel, out=np.zeros(1, np.float32), n=3)
    (branch,) = [op for op in module.walk() if isinstance(op, If)]
    assert branch.results == ()
    assert not any(isinstance(op, While) for op in module.walk())


def test_index_values_are_truncated_where_they_are_stored():
    def kernel(out, n):
        tl.store(out, n + 1)

    module, _ = lowered(kernel, out=np.zeros(1, np.int32), n=3)
    assert [str(op.to) for op in module.walk() if isinstance(op, Cast)] == ["i32"]
    assert F32 not in {element_of(v.type) for op in module.walk() for v in op.results}


def test_18_wrap_index_holds_in_loops_too():
    def kernel(out, n):
        total = 0
        for i in range(n):
            total += i * 65537
        tl.store(out + n - 1, total)

    out = np.zeros(3, np.int64)
    run(kernel, out=out, n=3, options=Options(wrap_index=True))
    assert out.tolist() == [0, 0, 3 * 65537]
    module, _ = lowered(kernel, out=out, n=3, options=Options(wrap_index=True))
    assert "index" not in {str(element_of(v.type)) for op in module.walk() for v in op.results}
