"""What pasted code of older Tritons is told, options that have no effect, and odds and ends."""

from __future__ import annotations

import importlib
import re
import sys

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from tests.language.harness import error_of, from_text, run
from tests.targets.everywhere import run_on
from workbench.triton.compiler.compiler import max_shared_mem
from workbench.triton.tools import disasm, ragged_tma


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tl.math.max(a, a)", r"write tl\.maximum\(a, b\)"),
        ("tl.math.min(a, 0.0)", r"write tl\.minimum\(a, b\)"),
        ("tl.math.maximum(a, a)", r"write tl\.maximum"),
        ("tl.libdevice.tanh(a)", r"write tl\.extra\.libdevice"),
        ("tl.math.libdevice.tanh(a)", r"write tl\.extra\.libdevice"),
        ("tl.dot(a, a, trans_a=True)", r"tl\.trans\(a\)"),
        ("tl.printf('a', a)", r"write tl\.device_print"),
        ("tl.any(a > 0)", r"tl\.reduce_or"),
        ("tl.load(x + i, is_volatile=True)", "volatile=True"),
        ("a.to(tl.float8)", r"tl\.float8e5"),
    ],
)
def test_an_older_spelling_says_what_to_write(text: str, words: str):
    body = f"def k(x):\n    i = tl.arange(0, 8)\n    a = tl.load(x + i)\n    {text}\n"
    error = error_of(body, x=np.zeros(8, np.float32))
    assert re.search(words, error.hint or ""), (error.message, error.hint)
    assert error.span is not None
    assert error.span.line == 4


def test_an_older_module_says_where_its_names_are(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    with wb.as_triton():
        with pytest.raises(ModuleNotFoundError, match=r"triton\.language\.extra\.libdevice has"):
            importlib.import_module("triton.language.libdevice")
        with pytest.raises(ModuleNotFoundError, match=r"no triton\.ops"):
            importlib.import_module("triton.ops")
        with pytest.raises(ImportError, match="libdevice"):
            exec("from triton.language import libdevice", {})


@wb.jit
def doubled(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("ctas", [2, 4])
def test_programs_of_several_blocks_give_the_same_result(ctas: int, target: str):
    x = np.arange(10, dtype=np.float32)
    compiled = doubled[(2,)](x, 10, B=8, num_ctas=ctas, target=target)
    assert np.array_equal(x, 2 * np.arange(10))
    texts = [remark.text for remark in compiled.trace.remarks]
    assert sum(f"num_ctas={ctas}: a program is one block here" in text for text in texts) == 1


def test_programs_of_several_blocks_are_code_for_a_chip():
    x = np.zeros(10, np.float32)
    kernel = doubled.warmup(x, 10, B=8, num_ctas=2, grid=(2,), target="sm_90a")
    assert ".entry" in kernel.asm["ptx"]
    assert "nctapercluster" not in kernel.asm["ptx"]


def test_stages_by_tritons_names():
    x = np.zeros(8, np.float32)
    near = doubled.warmup(x, 8, B=8, grid=(1,))
    assert near.asm["ttir"] == near.asm["ttgir"] == near.asm["tile"]
    assert "ttgir" in near.asm
    far = doubled.warmup(x, 8, B=8, grid=(1,), target="sm_90a")
    assert far.asm["ttgir"] == far.asm["gpu"] != far.asm["ttir"]
    sass = disasm.get_sass(far.asm["cubin"])
    assert "EXIT" in sass
    assert "EXIT" in disasm.get_sass(far.asm["cubin"], far.name)
    with pytest.raises(ValueError, match="no function 'other'"):
        disasm.get_sass(far.asm["cubin"], "other")


def test_shared_memory_without_a_device():
    from workbench.devices import cuda

    if not cuda.available():
        assert max_shared_mem(0) == 0


@pytest.mark.parametrize("target", ["interpreter", "cpu", "sm_90a"])
def test_numbers_in_assembly(target: str):
    function = from_text("""
        def kernel(out, x, k: tl.constexpr, B: tl.constexpr):
            i = tl.arange(0, B)
            y = tl.inline_asm_elementwise("mad.lo.s32 $0, $1, $2, $3;", "=r,r,n,r",
                                          [tl.load(x + i), k, i], tl.int32, True, 1)
            tl.store(out + i, y)
    """)
    out = np.zeros(8, np.int32)
    run_on(target, function, out=out, x=np.arange(8, dtype=np.int32), k=-3, B=8)
    assert np.array_equal(out, np.arange(8) * -2)


def test_a_number_that_is_not_known():
    text = """
        def kernel(x, n):
            tl.inline_asm_elementwise("add.s32 $0, $1, $2;", "=r,r,n", [n, n], tl.int32, True, 1)
    """
    error = error_of(from_text(text), x=np.zeros(1, np.int32), n=3)
    assert "the constraint 'n' is for an integer known at compile time" in error.message


def test_arrays_of_different_lengths_behind_each_other():
    torch = pytest.importorskip("torch")
    rows = torch.arange(10 * 8, dtype=torch.float32).reshape(10, 8)
    found = ragged_tma.create_ragged_descriptor(rows, [4, 8])
    out = torch.full((4, 8), -1.0)
    read_part[(1,)](found, out, 3, 2)
    assert torch.equal(out[:2], rows[3:5])
    assert not out[2:].any()
    with pytest.raises(ValueError, match="no ragged descriptor"):
        ragged_tma.create_ragged_descriptor(rows, [4, 8], ragged_dim=1)


@wb.jit
def read_part(d, out, first, count):
    block = ragged_tma.load_ragged(d, first, count, (0, 0))
    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + i, block)
    ragged_tma.store_ragged(d, first, count, (0, 0), block)


def test_aliases_of_chips_and_libraries():
    function = from_text("""
        def kernel(out, x, B: tl.constexpr):
            i = tl.arange(0, B)
            a = tl.load(x + i)
            tl.extra.hip.memrealtime()
            short = tl.extra.cuda.convert_custom_float8_sm80(a, tl.float8e4b15)
            tl.store(out + i, tl.extra.hip.libdevice.sqrt(a)
                     + tl.extra.cuda.utils.convert_fp8e4b15_to_float16(short))
    """)
    out, x = np.zeros(4, np.float32), np.array([1, 0.25, 0.0, 1.5], np.float32)
    run(function, out=out, x=x, B=4)
    assert np.allclose(out, np.sqrt(x) + x)
