"""Numbers of 16 bits that are rounded two at a time stay in their words."""

import re

import workbench
from tests.kernels import matmul

STRIDES = "i32:16 i32=1 "


def llvm_of(kernel, signature: str, **constants: int) -> str:
    return workbench.compile(kernel, signature, constants, target="sm_90a").asm["llvm"]


def test_a_product_goes_to_memory_in_words():
    signature = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 " + STRIDES * 3
    text = llvm_of(matmul.matmul, signature, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, GROUP_M=8)
    assert "cvt.rn.f16x2.f32" in text
    assert not re.search(r"(extract|insert)element <\d x half>", text)
