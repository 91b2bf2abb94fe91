"""PTX: wide accesses, no spills, and rows that know their op."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

import workbench as wb
import workbench.language as tl
from tests.checking import check
from tests.kernels import matmul, softmax, vector_add
from tests.language.harness import from_text
from tests.targets.nvidia.configurations import QUICK, SEED_ADD, SLOW, Configuration
from workbench.language.extra import libdevice
from workbench.passes.manager import Recorder
from workbench.source import TargetError
from workbench.targets.nvidia.toolchain import assemble, find
from workbench.trace import Rendered

CHIPS = ("sm_80", "sm_90a")
EVICTIONS = ("", "evict_first", "evict_last")
needs_ptxas = pytest.mark.skipif(
    find("ptxas") is None, reason="no ptxas: pip install nvidia-cuda-nvcc"
)
needs_nvdisasm = pytest.mark.skipif(
    find("ptxas") is None or find("nvdisasm") is None, reason="no ptxas and nvdisasm"
)


def ptx(configuration: Configuration, chip: str) -> str:
    return configuration.built(chip).texts["ptx"]().text


@pytest.mark.parametrize("chip", CHIPS)
def test_add_has_exactly_two_wide_loads_and_one_wide_store(chip: str):
    text = ptx(SEED_ADD, chip)
    assert len(re.findall(r"ld\.global\S*\.v4", text)) == 2
    assert len(re.findall(r"st\.global\S*\.v4", text)) == 1
    assert len(re.findall(r"\b(ld|st)\.global", text)) == 3
    check(
        text,
        """
        CHECK-LABEL: .entry add
        CHECK: .reqntid 128
        CHECK-COUNT-2: ld.global{{.*}}.v4
        CHECK: st.global{{.*}}.v4
        CHECK-NOT: {{ld|st}}.global
        CHECK: ret
    """,
    )


@needs_ptxas
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("configuration", QUICK, ids=lambda c: c.name)
def test_code_assembles_without_spills(configuration: Configuration, chip: str):
    assembled = assemble(ptx(configuration, chip), chip)
    assert (assembled.spill_store_bytes, assembled.spill_load_bytes) == (0, 0)
    assert assembled.stack_bytes == 0
    assert assembled.notes == ()  # C75xx: ptxas serialises what it does not understand


@needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("configuration", SLOW, ids=lambda c: c.name)
def test_all_configurations_assemble_without_spills(configuration: Configuration, chip: str):
    test_code_assembles_without_spills(configuration, chip)


def test_the_64_bit_twin_of_a_matmul_copies_ahead_too():
    """Indices that may exceed 32 bits keep their alignment, so loads stay wide."""
    wide = next(c for c in SLOW if c.name == "matmul 128x128x32 w4 s4 wide")
    text = ptx(wide, "sm_90a")
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \[[^]]*\], \[[^]]*\], 16", text)) >= 8
    assert not re.findall(r"ld\.global", text)


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_89"])
@pytest.mark.parametrize("hint", ["cache_modifier", "eviction_policy"])
def test_every_hint_assembles_on_every_chip(hint: str, chip: str):
    """A hint of a later PTX version than the chip's first raises the version of the text."""
    words = {"cache_modifier": ((".ca", ".cg", ".cv"), (".wb", ".cg", ".cs", ".wt"))}
    loads, stores = words.get(hint, (EVICTIONS, EVICTIONS))
    lines = [f"    v{i} = tl.load(x + i + {i}, {hint}={w!r})" for i, w in enumerate(loads)]
    lines += [f"    tl.store(x + i + 64 * {i}, v0, {hint}={w!r})" for i, w in enumerate(stores)]
    lines += [f"    tl.store(x + i + 1, v{i})" for i in range(1, len(loads))]
    body = "\n".join(["def kernel(x):", "    i = tl.arange(0, 64)", *lines])
    compiled = wb.compile(from_text(body + "\n"), "*fp32:16", {}, target=chip)
    assert compiled.n_regs is not None
    assert ("L1::evict_last" in compiled.asm["ptx"]) == (hint == "eviction_policy")


@needs_ptxas
@pytest.mark.parametrize("hint", ["cache_modifier='.ca'", "eviction_policy='evict_first'"])
def test_a_volatile_load_takes_no_hint(hint: str):
    """PTX ISA 9.0, ld: `.volatile` stands with no cache operator and no priority of eviction."""
    kernel = from_text(f"""
        def kernel(x, n):
            i = tl.arange(0, 64)
            tl.store(x + 64 + i, tl.load(x + i, mask=i < n, volatile=True, {hint}))
    """)
    compiled = wb.compile(kernel, "*fp32:16 i32", {}, target="sm_90a")
    assert compiled.code
    assert "ld.volatile.global" in compiled.asm["ptx"]


# -- rows -------------------------------------------------------------------------------------
#: What an instruction looks like in each text.
CODE = {
    "llvm": re.compile(r"^  \S"),
    "ptx": re.compile(r"^\s+(@%p\d+ )?[a-z][\w.:]*(\s.*)?;"),
    "sass": re.compile(r"^\s*/\*[0-9a-f]{4,}\*/"),
}


def unattributed(text: Rendered, pattern: re.Pattern[str]) -> tuple[list[str], int]:
    """Return the instructions that belong to no op, and how many instructions there are.

    What does nothing is none: ptxas fills with it, behind the end and beside products.
    """
    lines = text.text.splitlines()
    code = [row for row, line in enumerate(lines)
            if pattern.match(line) and not re.search(r"\bNOP\b", line)]  # fmt: skip
    if re.search(r"\bBRA\b", lines[code[-1]]):
        code.pop()
    return [lines[row].strip() for row in code if not text.rows[row]], len(code)


def known_ops(recorder: Recorder) -> set[int]:
    modules = [m for record in recorder.passes for m in (record.before, record.after)]
    return {op.id for module in modules for op in module.walk()}


def check_rows(text: Rendered, ops: Iterable[int]) -> None:
    assert len(text.rows) == len(text.text.splitlines())
    assert {op for row in text.rows for op in row} <= set(ops)


@pytest.mark.parametrize(
    "configuration", [SEED_ADD, QUICK[5], QUICK[7]], ids=lambda configuration: configuration.name
)
def test_rows_belong_to_ops_that_exist(configuration: Configuration):
    recorder = Recorder()
    built = configuration.built("sm_90a", recorder)
    for stage in ("llvm", "ptx"):
        text = built.texts[stage]()
        check_rows(text, known_ops(recorder))
        alone, count = unattributed(text, CODE[stage])
        # Made by LLVM: one read of each parameter, and values shared between ops. Copies of a
        # register into another are what a loop's carried values begin with: one for each sum.
        alone = [row for row in alone if not re.match(r"mov\.b\d+\s+%r\d+, %r\d+;", row)]
        assert len(alone) <= len(built.gpu.parameters) + count // 25, alone
    stored = [op.id for op in built.gpu.walk() if op.name == "tile.store"]
    rows = built.texts["ptx"]()
    lines = rows.text.splitlines()
    for row, line in enumerate(lines):
        if "st.global" in line:
            assert rows.rows[row][0] in stored, line


@needs_nvdisasm
@pytest.mark.parametrize(
    "configuration", [SEED_ADD, QUICK[5], QUICK[7]], ids=lambda configuration: configuration.name
)
def test_sass_rows_belong_to_ops_that_exist(configuration: Configuration):
    recorder = Recorder()
    built = configuration.built("sm_90a", recorder)
    text = built.texts["sass"]()
    check_rows(text, known_ops(recorder))
    alone, count = unattributed(text, CODE["sass"])
    assert count > 20
    assert len(alone) <= len(built.gpu.parameters) + count // 25, alone
    stored = [op.id for op in built.gpu.walk() if op.name == "tile.store"]
    lines = text.text.splitlines()
    for row, line in enumerate(lines):
        if "STG" in line:
            assert text.rows[row][0] in stored, line


# -- sizes of which nothing is known ----------------------------------------------------------
def test_full_blocks_of_an_add_are_accessed_in_wide_pieces():
    """One comparison chooses; the block at the edge is accessed element by element."""
    add = Configuration("add", lambda: vector_add.add, "*fp32:16 *fp32:16 *fp32:16 i32",
                        {"BLOCK": 512}, {"num_warps": 4})  # fmt: skip
    recorder = Recorder()
    text = add.built("sm_90a", recorder).texts["ptx"]().text
    assert len(re.findall(r"ld\.global\S*\.v4", text)) == 2
    assert len(re.findall(r"st\.global\S*\.v4", text)) == 1
    assert len(re.findall(r"@%p\d+ ld\.global\S*\.b32 %", text)) == 8
    (remark,) = [r for r in recorder.remarks.items if "full blocks" in r.text]
    assert remark.severity == "applied"


def test_a_block_that_is_the_whole_row_is_not_written_twice():
    """It is full only where its size is known to be divisible."""
    softmaxes = Configuration("softmax", lambda: softmax.softmax,
                              "*fp32:16 *fp32:16 i32:16 i32:16 i32", {"BLOCK": 1024})  # fmt: skip
    text = softmaxes.built("sm_90a").texts["ptx"]().text
    assert not re.findall(r"ld\.global\S*\.v4", text)


@pytest.mark.parametrize(("divisible", "bytes_"), [(16, 16), (8, 16), (4, 8), (2, 4)])
def test_strides_that_are_multiples_of_what_an_access_needs_are_aligned(
    divisible: int, bytes_: int
):
    """N = 1000 in fp16: rows of 2,000 bytes begin on multiples of 16."""
    facts = "*fp16:16 *fp16:16 *fp16:16 i32:D i32:D i32:D i32:D i32=1 i32:D i32=1 i32:D i32=1"
    product = Configuration(
        "product", lambda: matmul.matmul, facts.replace("D", str(divisible)),
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8},
        {"num_warps": 4, "num_stages": 3, "tma": False},
    )  # fmt: skip
    text = ptx(product, "sm_90a")
    copies = re.findall(r"cp\.async\.c\w\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", text)
    assert set(copies) == {str(bytes_)}
    assert not re.findall(r"ld\.global", text)


@pytest.mark.parametrize("type", ["i32", "u32", "i8", "u8"])
def test_a_float_is_cut_to_an_integer_by_one_instruction(type: str):
    """It saturates, and knows NaN; bytes are packed two at a time by what saturates them."""

    def kernel(x_ptr, out_ptr):
        offsets = tl.arange(0, 128)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets).to(out_ptr.dtype.element_ty))

    compiled = wb.compile(
        kernel, f"*f32:16 *{type}:16", {}, target="sm_90a", num_warps=1, cached=False
    )
    text = compiled.asm["ptx"]
    assert len(re.findall(r"cvt\.rzi\.[su]32\.f32", text)) == 4
    packed = len(re.findall(rf"cvt\.pack\.sat\.{type[0].replace('i', 's')}8\.s32", text))
    assert packed == (2 if type.endswith("8") else 0)
    assert not re.findall(r"setp|selp|prmt|(?:min|max)\.", text)


@needs_nvdisasm
def test_a_rounded_float_becomes_a_byte_by_four_instructions():
    """Half of its sign, a sum toward zero, and half of a conversion of two: as quantisers write."""

    def kernel(x_ptr, out_ptr):
        offsets = tl.arange(0, 512)
        x = tl.load(x_ptr + offsets)
        tl.store(out_ptr + offsets, libdevice.round(x).to(tl.int8))

    compiled = wb.compile(kernel, "*f32:16 *i8:16", {}, target="sm_90a", num_warps=1, cached=False)
    sass = compiled.asm["sass"]
    assert len(re.findall(r"\bF2IP\.S8\.F32\.TRUNC", sass)) == 8
    assert not re.findall(r"\bFRND|\bF2I\.|\bVIMNMX", sass)


def test_rows_under_a_mask_of_remainders_are_loaded_in_wide_pieces():
    """Quotients of what may be negative have no runs: the 32-bit twin runs where nothing is."""

    def kernel(x_ptr, out_ptr, chunk, row, columns, padding):
        at = tl.program_id(0) * chunk + tl.arange(0, 1024)
        padded = at - at // row * padding if padding != 0 else at
        x = tl.load(x_ptr + padded, mask=at % row < columns, other=0.0)
        tl.store(out_ptr + at, x)

    facts = "*f32:16 *f32:16 i32:16 i32:16 i32:16 i32:16"
    rows = Configuration("padded rows", lambda: kernel, facts, {}, {"num_warps": 4})
    found = ptx(rows, "sm_90a")
    assert len(re.findall(r"ld\.global\.v4", found)) == 2
    assert len(re.findall(r"\bld\.global", found)) == 2


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_90"])
def test_a_bf16_is_added_on_every_chip(chip: str):
    """PTX ISA 9.0, atom: `.bf16` requires sm_90; those before compare and swap."""
    kernel = from_text("""
        def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
            i = tl.arange(0, B)
            old = tl.atomic_add(x_ptr + i % 8, tl.full((B,), 0.5, tl.bfloat16), mask=i < n)
            tl.store(out_ptr + i, old, mask=i < n)
            tl.atomic_add(x_ptr, 0.5, sem="relaxed", scope="sys")
    """)
    made = wb.compile(kernel, "*bf16 *f32 i32", {"B": 64}, target=chip)
    assert made.code
    swaps = re.findall(r"atom\.(\w+)\.(\w+)\.global\.cas\.b16", made.asm["ptx"])
    assert swaps == ([] if chip == "sm_90" else [("acq_rel", "gpu"), ("relaxed", "sys")])


def _of_statement(text: str, constraints: str = "=r,r", chip: str = "sm_90a") -> wb.CompiledKernel:
    kernel = from_text(f"""
        def kernel(x):
            i = tl.arange(0, 32)
            v = tl.load(x + i)
            r = tl.inline_asm_elementwise({text!r}, {constraints!r}, [v], tl.int32, True, 1)
            tl.store(x + i, r)
    """)
    return wb.compile(kernel, "*i32", {}, target=chip)


@needs_ptxas
@pytest.mark.parametrize(
    ("text", "chip", "version"),
    [
        ("mov.b32 $0, $1;", "sm_90a", "8.0"),
        ("{ .reg .b128 t; .reg .b64 a; cvt.u64.u32 a, $1; mov.b128 t, {a, a}; "
         "mov.b128 {a, _}, t; cvt.u32.u64 $0, a; }", "sm_90a", "8.3"),
        ("{ .reg .f32 a; mov.b32 a, $1; min.xorsign.abs.f32 a, a, a; mov.b32 $0, a; }",
         "sm_86", "7.2"),
    ],
)  # fmt: skip
def test_a_statement_of_the_authors_raises_the_version(text: str, chip: str, version: str):
    made = _of_statement(text, chip=chip)
    assert made.code
    assert f".version {version}\n" in made.asm["ptx"]


@needs_ptxas
def test_a_statement_that_ptxas_refuses_is_named():
    with pytest.raises(TargetError) as raised:
        _ = _of_statement("fma.rn.bf16x2 $0, $1;").code
    error = raised.value
    assert error.code == "K420"
    assert "ptxas refuses 'fma.rn.bf16x2 " in error.message
    assert error.span is not None
    assert "tl.inline_asm_elementwise" in str(error)
    assert error.hint


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float8e4nv", "float8e5"])
def test_small_floats_are_made_and_read_on_every_chip(dtype: str, chip: str):
    kernel = from_text(f"""
        def kernel(x):
            i = tl.arange(0, 64)
            tl.store(x + i, tl.load(x + i).to(tl.{dtype}).to(tl.float32))
    """)
    assert wb.compile(kernel, "*fp32:16", {}, target=chip).code
