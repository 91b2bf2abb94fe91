"""Numbers of 16 bits that are rounded two at a time stay in their words."""

import re

import workbench
from tests.kernels import matmul
from workbench import jit
from workbench import language as tl

STRIDES = "i32:16 i32=1 "


@jit
def summed(a_ptr, b_ptr, out_ptr, rounds):
    """Multiply what the round before has rounded."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    a = tl.load(a_ptr + rows * 64 + columns)
    b = tl.load(b_ptr + rows * 64 + columns)
    for _ in range(rounds):
        a = tl.dot(a, b).to(tl.float16)
    tl.store(out_ptr + rows * 64 + columns, a)


def llvm_of(kernel, signature: str, **constants: int) -> str:
    return workbench.compile(kernel, signature, constants, target="sm_90a").asm["llvm"]


def test_a_product_goes_to_memory_in_words():
    signature = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 " + STRIDES * 3
    text = llvm_of(matmul.matmul, signature, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, GROUP_M=8)
    assert "cvt.rn.f16x2.f32" in text
    assert not re.search(r"(extract|insert)element <\d x half>", text)


def test_a_loop_carries_what_it_rounds_in_words():
    text = llvm_of(summed, "*fp16:16 *fp16:16 *fp16:16 i32")
    assert "cvt.rn.f16x2.f32" in text
    assert "phi half" not in text
    assert "phi i32" in text
