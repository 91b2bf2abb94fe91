"""Triton's host API on our kernel objects, in the way its users and test suites call it."""

from __future__ import annotations

import linecache
import textwrap
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import workbench.triton as triton
import workbench.triton.language as tl
from workbench.runtime import folders
from workbench.runtime.cache import CacheWarning
from workbench.targets.nvidia.toolchain import find

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("own_cache")


# -- kernel objects -----------------------------------------------------------------------------
@triton.jit
def template(X, Z, SIZE: tl.constexpr):
    off = tl.arange(0, SIZE)
    x = tl.load(X + off)  # noqa: F841
    z = GENERATE_TEST_HERE  # noqa: F821
    tl.store(Z + off, z)


def patched(text):
    kernel = triton.JITFunction(template.fn)
    kernel._unsafe_update_src(kernel.src.replace("GENERATE_TEST_HERE", text))
    return kernel


@pytest.mark.parametrize(
    ("text", "function"),
    [("x + 2", lambda x: x + 2), ("tl.sqrt(x)", np.sqrt), ("tl.math.exp2(x)", np.exp2)],
)
def test_kernels_built_from_text(text, function):
    x, z = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    patched(text)[(1,)](x, z, SIZE=8)
    np.testing.assert_allclose(z, function(x), rtol=1e-6)


def test_a_template_fails_at_its_launch():
    with pytest.raises(triton.CompilationError, match="GENERATE_TEST_HERE") as caught:
        template[(1,)](np.zeros(8, np.float32), np.zeros(8, np.float32), SIZE=8)
    assert isinstance(caught.value, triton.TritonError)
    assert isinstance(caught.value.__cause__, NameError)


@triton.jit
def inner(i):
    i = i + 1
    return i  # noqa: RET504


@triton.jit
def outer(X, i, BLOCK: tl.constexpr):
    tl.store(X, inner(i))


def test_keys_follow_the_text_of_what_is_called():
    before = outer.cache_key
    text = inner.src
    inner._unsafe_update_src(text.replace("i + 1", "i + 2"))
    assert outer.cache_key != before
    x = np.zeros(1, np.int32)
    outer[(1,)](x, 5, BLOCK=8)
    assert x[0] == 7
    inner._unsafe_update_src(text)
    assert outer.cache_key == before
    outer[(1,)](x, 5, BLOCK=8)
    assert x[0] == 6


def test_src_is_not_assigned():
    with pytest.raises(AttributeError):
        inner.src = "def inner(i): return i"
    assert inner.parse().body[0].name == "inner"


def test_a_kernel_whose_text_is_in_linecache_only():
    text = textwrap.dedent(
        """
        @triton.jit
        def kernel(X, BLOCK: tl.constexpr):
            tl.store(X + tl.arange(0, BLOCK), 3.0)
        """
    )
    file = "<generated 1>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"triton": triton, "tl": tl}
    exec(compile(text, file, "exec"), space)
    x = np.zeros(4, np.float32)
    space["kernel"][(1,)](x, BLOCK=4)
    assert x.tolist() == [3] * 4


def test_a_kernel_whose_file_is_gone(tmp_path):
    path = tmp_path / "generated.py"
    path.write_text("def kernel(X, BLOCK):\n    tl.store(X + tl.arange(0, BLOCK), 4.0)\n")
    space = {"tl": tl, "__name__": "generated"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    kernel = triton.jit(space["kernel"])
    path.unlink()
    linecache.clearcache()
    x = np.zeros(4, np.float32)
    kernel.run(x, grid=(1,), warmup=False, BLOCK=tl.constexpr(4))
    assert x.tolist() == [4] * 4


def test_what_is_known_of_parameters():
    @triton.jit(do_not_specialize=["a", 1], do_not_specialize_on_alignment=["c"])
    def kernel(a, b, c: tl.int64, d: "*fp16", e: tl.const, F: tl.constexpr = 3):  # noqa: F722
        pass

    assert [p.name for p in kernel.params] == kernel.arg_names
    assert [p.num for p in kernel.params if p.do_not_specialize] == [0, 1]
    assert [p.num for p in kernel.params if p.do_not_specialize_on_alignment] == [2]
    assert [p.num for p in kernel.params if p.is_constexpr] == kernel.constexprs == [5]
    assert kernel.params[2].annotation_type == "i64"
    assert kernel.params[3].annotation == "*fp16"
    assert kernel.params[4].is_const
    assert kernel.params[5].default == 3
    assert kernel.params[5].has_default
    assert list(kernel.signature.parameters) == kernel.arg_names


def test_a_call_without_a_grid():
    with pytest.raises(RuntimeError, match="is launched with a grid"):
        outer(1, 2, 3)


# -- arguments ----------------------------------------------------------------------------------
@triton.jit
def store_index(X, i, BLOCK: tl.constexpr):
    tl.store(X, i)


Shape = namedtuple("Shape", ["rows", "columns"])


@triton.jit
def over_tuple(X, shape, extra, MODE: tl.constexpr):
    off = tl.arange(0, 8)
    value = shape.rows * 10 + shape.columns
    if extra is not None:
        value += extra[0]
    if MODE is None:
        value += 1000
    tl.store(X + off, value, mask=off < shape[0])


@pytest.mark.parametrize("extra", [None, (5, None)])
@pytest.mark.parametrize("mode", [None, 0])
def test_tuples_and_none(extra, mode):
    x = np.zeros(8, np.int32)
    over_tuple[(1,)](x, Shape(3, 4), extra, MODE=mode)
    wanted = 34 + (5 if extra else 0) + (1000 if mode is None else 0)
    assert x.tolist() == [wanted] * 3 + [0] * 5


@triton.constexpr_function
def block_for(n):
    return triton.next_power_of_2(n)


@triton.jit
def with_function(X, N: tl.constexpr):
    off = tl.arange(0, block_for(N))
    tl.store(X + off, 1.0, mask=off < N)


def test_functions_of_constexprs():
    x = np.zeros(8, np.float32)
    with_function[(1,)](x, N=5)
    assert x.tolist() == [1] * 5 + [0] * 3
    assert block_for(5) == 8
    before = with_function.cache_key
    text = block_for.src
    block_for._unsafe_update_src(text.replace("n)", "n + 1)"))
    assert with_function.cache_key != before
    block_for._unsafe_update_src(text)


def test_tensors_read_as_another_dtype():
    x = torch.tensor([0, 0x3C, 0x40], dtype=torch.int8)  # 0, 1 and 2 as e5m2
    out = torch.zeros(3)

    @triton.jit
    def convert(X, OUT, n):
        off = tl.arange(0, 4)
        tl.store(OUT + off, tl.load(X + off, mask=off < n).to(tl.float32), mask=off < n)

    wrapped = triton.reinterpret(x, tl.float8e5)
    assert isinstance(wrapped, triton.TensorWrapper)
    for launch in (convert[(1,)], convert.interpret[(1,)]):
        out.zero_()
        launch(wrapped, out, 3)
        assert out.tolist() == [0, 1, 2]
    assert triton.reinterpret(wrapped, torch.int8) is x


def test_dtypes_in_place_of_tensors():
    kernel = store_index.warmup(triton.MockTensor(torch.int32), 5, BLOCK=8, grid=(1,))
    assert kernel.asm["ttir"]
    assert triton.MockTensor(torch.float16, [4, 8]).stride() == (8, 1)


def test_options():
    x = torch.zeros(1, dtype=torch.int32)
    store_index[(1,)](x, 3, BLOCK=8, num_warps=2, num_ctas=1, enable_fp_fusion=False)
    with pytest.raises(KeyError, match="num_warp"):
        store_index[(1,)](x, 3, BLOCK=8, num_warp=2)
    with pytest.raises(KeyError):
        store_index[(1,)](x, 3, BLOCK=8, device_type="cuda")


# -- ahead of time ------------------------------------------------------------------------------
@triton.jit
def add_numbers(X, Y, n, BLOCK: tl.constexpr):
    off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + off, tl.load(X + off, mask=off < n) + 1, mask=off < n)


def test_compiling_a_source():
    source = triton.compiler.ASTSource(
        fn=add_numbers,
        signature={"X": "*fp32", "Y": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 128},
        attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(source, target=target, options={"num_warps": 8})
    assert ".target sm_90a" in kernel.asm["ptx"]
    assert kernel.metadata.num_warps == 8
    assert kernel.metadata.target == target
    assert kernel.asm["ttir"] == kernel.asm["tile"]
    assert (
        source.hash()
        == triton.compiler.ASTSource(
            add_numbers, source.signature, {"BLOCK": 128}, source.attrs
        ).hash()
    )
    with pytest.raises(KeyError, match="there are"):
        _ = kernel.asm["amdgcn"]


def test_static_assertions_have_their_class():
    @triton.jit
    def kernel(X, N: tl.constexpr):
        tl.static_assert(N > 4, "N is too small")

    errors = triton.compiler.errors
    with pytest.raises(errors.CompileTimeAssertionFailure, match="N is too small") as caught:
        kernel.warmup(torch.float32, N=2, grid=(1,))
    assert isinstance(caught.value, triton.CompilationError)
    assert caught.value.__cause__ is None


def test_errors_of_functions_are_causes():
    @triton.constexpr_function
    def fails(n):
        raise ZeroDivisionError("on purpose")

    @triton.jit
    def kernel(X, N: tl.constexpr):
        tl.store(X, fails(N))

    with pytest.raises(triton.CompilationError) as caught:
        kernel.warmup(torch.float32, N=2, grid=(1,))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# -- the rest -----------------------------------------------------------------------------------
def test_devices():
    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert target.backend in ("cpu", "cuda")
    assert active.utils.get_device_properties(0)["multiprocessor_count"] > 0
    assert active.get_active_torch_device().type == target.backend
    cache = active.get_empty_cache_for_benchmark()
    active.clear_cache(cache)
    assert active.get_benchmarker()(lambda: None, quantiles=(0.5,), rep=1, warmup=1) >= 0
    driver = triton.runtime.driver
    driver.set_active("mine")
    assert driver.active == "mine"
    driver.reset_active()
    assert driver.active is active


def test_settings(monkeypatch):
    settings = triton.knobs.autotuning
    with settings.scope():
        monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
        assert settings.print
        settings.print = False
        assert not settings.print
        settings.print = triton.knobs.env
        assert not settings.print  # what was set reached the environment
    assert set(settings.knobs) == {"cache", "print"}


def test_kernels_decorated_for_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    kernel = triton.jit(store_index.fn)
    assert isinstance(kernel, triton.runtime.interpreter.InterpretedFunction)
    x = torch.zeros(1, dtype=torch.int32)
    assert kernel[(1,)](x, 9, BLOCK=8).target == "interpreter"
    assert x.item() == 9


def test_files_beside_kernels():
    manager = triton.runtime.cache.get_cache_manager("some key")
    assert manager.get_file("a.json") is None
    path = manager.put("[1]", "a.json", binary=False)
    assert manager.get_file("a.json") == path
    manager.put_group("group", {"a.json": path, "gone": "/nowhere"})
    assert manager.get_group("group") == {"a.json": path}


def test_files_beside_kernels_are_signed_and_stay_inside(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "elsewhere"))
    manager = triton.runtime.cache.get_cache_manager("../key")
    path = manager.put(b"good", "deep/a.so")
    assert not Path(path).is_relative_to(tmp_path)
    (stored,) = (tmp_path / "elsewhere" / "v3").iterdir()
    monkeypatch.setattr(folders, "_own", None)  # as another process finds it
    assert Path(manager.get_file("deep/a.so")).read_bytes() == b"good"
    monkeypatch.setattr(folders, "_own", None)
    stored.write_bytes(stored.read_bytes().replace(b"good", b"evil"))
    with pytest.warns(CacheWarning, match="is damaged"):
        assert manager.get_file("deep/a.so") is None
    for name in ("../a", "/etc/passwd", "", "a/../../b"):
        with pytest.raises(ValueError, match="cannot be called"):
            manager.put(b"", name)


def test_private_helpers():
    utils = triton._utils
    assert utils.canonicalize_dtype(torch.float16) == "fp16"
    assert utils.canonicalize_ptr_dtype("bool", True) == "*ku1"
    assert utils.get_primitive_bitwidth("bf16") == 16
    assert utils.find_paths_if([1, (2, [3])], lambda _, x: x > 1) == [(1, 0), (1, 1, 0)]
    assert utils.get_iterable_path([1, (2, [3])], (1, 1, 0)) == 3
    assert utils.validate_block_shape([4, 8]) == 32
    assert utils.is_namedtuple(Shape)
    assert triton.runtime.jit.mangle_type(torch.zeros(4)) == "*fp32"
    triton.set_allocator(lambda size, alignment, stream: None)


def test_descriptors_of_the_host():
    descriptor = triton.tools.tensor_descriptor.TensorDescriptor

    @triton.jit
    def twice(source, out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
        row = tl.program_id(0) * BLOCK_M
        out.store([row, 0], source.load([row, 0]) * 2)

    x, out = torch.arange(7 * 32.0).reshape(7, 32), torch.zeros(7, 32)
    given = descriptor.from_tensor(x, [4, 32]), descriptor.from_tensor(out, [4, 32])
    for launch in (twice[(2,)], twice.interpret[(2,)]):
        out.zero_()
        launch(*given, BLOCK_M=4, BLOCK_N=32)
        assert torch.equal(out, x * 2)
    with pytest.raises(AssertionError, match="no tensor descriptor"):
        descriptor(x, [7, 32], [32, 1], [4])


def test_a_hook_sets_the_blocks_of_descriptors():
    descriptor = triton.tools.tensor_descriptor.TensorDescriptor

    def set_blocks(args):
        args["source"].block_shape = [args["BLOCK"], 16]

    configs = [triton.Config({"BLOCK": n}, pre_hook=set_blocks) for n in (2, 4)]

    @triton.autotune(configs, key=[], rep=1, warmup=1)
    @triton.jit
    def copy(source, out, BLOCK: tl.constexpr):
        row = tl.program_id(0) * BLOCK
        rows, columns = row + tl.arange(0, BLOCK), tl.arange(0, 16)
        block = source.load([row, 0])
        tl.store(out + rows[:, None] * 16 + columns[None, :], block, mask=rows[:, None] < 6)

    x, out = torch.arange(96.0).reshape(6, 16), torch.zeros(6, 16)
    copy[lambda meta: (triton.cdiv(6, meta["BLOCK"]),)](descriptor.from_tensor(x, [1, 1]), out)
    assert torch.equal(out, x)
    assert all(times[0] < float("inf") for times in copy.configs_timings.values())


def test_microscaling_formats():
    mxfp = triton.tools.mxfp
    values = torch.tensor([[0.0, 0.5, -6.0, 2.4, 5.0]])
    coded = mxfp.MXFP4Tensor(data=values)
    assert coded.to(torch.float32).tolist() == [[0, 0.5, -6, 2, 4]]
    packed = coded.to_packed_tensor(dim=1)
    assert packed.shape == (1, 3)
    assert torch.equal(coded.unpack_packed_tensor(packed, 1, values.shape), coded.data)
    scale = mxfp.MXScaleTensor(data=torch.tensor([1.0, 0.3, -1.0]))
    assert scale.data.tolist() == [127, 125, 255]
    assert scale.to(torch.float32)[:2].tolist() == [1, 0.25]
    random = mxfp.MXScaleTensor(size=(64,)).random(low=0.5, high=4.0).to(torch.float32)
    assert 0.5 <= random.min() <= random.max() <= 4.0


# -- kernels compiled ahead, as the tutorials use them --------------------------------------------
@triton.jit
def doubled(X, Z, n, SIZE: tl.constexpr, stages: tl.constexpr):
    for start in tl.range(0, n, SIZE, num_stages=stages):
        off = start + tl.arange(0, SIZE)
        tl.store(Z + off, 2 * tl.load(X + off, mask=off < n), mask=off < n)


def test_a_warmed_up_kernel_is_asked_for_its_numbers_and_takes_every_argument():
    x, z = torch.arange(10.0), torch.zeros(10)
    kernel = doubled.warmup(x, z, 10, SIZE=4, stages=2, grid=(1,))
    kernel._init_handles()
    assert kernel.metadata.shared == 0
    kernel[(1, 1, 1)](x, z, 10, 4, 2)
    assert torch.equal(z, 2 * x)


@triton.jit
def normalised(x_ptr, out_ptr, rows, n, SIZE: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = row * n + tl.arange(0, SIZE)
        mask = tl.arange(0, SIZE) < n
        x = tl.exp(tl.load(x_ptr + at, mask=mask, other=-float("inf")))
        tl.store(out_ptr + at, x / tl.sum(x, axis=0), mask=mask)


@pytest.mark.skipif(find("ptxas") is None, reason="no ptxas: pip install nvidia-cuda-nvcc")
def test_an_occupancy_is_computed_of_what_a_kernel_takes():
    """As the softmax tutorial has it; without a GPU the numbers are those of the code shown."""
    sizes = triton.runtime.driver.active.utils.get_device_properties(0)
    x, out = torch.rand(50, 600), torch.zeros(50, 600)
    kernel = normalised.warmup(x, out, 50, 600, SIZE=1024, num_warps=8, grid=(1,), target="cpu")
    kernel._init_handles()
    occupancy = sizes["max_num_regs"] // (kernel.n_regs * sizes["warpSize"] * 8)
    occupancy = min(occupancy, sizes["max_shared_mem"] // kernel.metadata.shared)
    shown = normalised.warmup(x, out, 50, 600, SIZE=1024, num_warps=8, grid=(1,), target="sm_90a")
    assert (kernel.n_regs, kernel.n_spills) == (shown.n_regs, shown.n_spills)
    assert kernel.metadata.shared == shown.metadata.shared > 0
    programs = min(sizes["multiprocessor_count"] * occupancy, 50)
    assert programs >= 1
    kernel[(programs, 1, 1)](x, out, 50, 600, 1024)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


def test_what_nobody_counted_is_an_error_that_says_why(monkeypatch):
    from workbench.source import ToolError

    x = torch.arange(10.0)
    kernel = doubled.warmup(x, x, 10, SIZE=4, stages=2, grid=(1,), target="cpu")
    uncounted = doubled.warmup(x, x, 10, SIZE=4, stages=2, grid=(1,), target="sm_90a")
    monkeypatch.setattr(uncounted, "_launch", replace(uncounted.launch, registers=None))
    monkeypatch.setattr(kernel, "_find_shown", lambda _: uncounted)
    with pytest.raises(ToolError, match="doubled runs on the CPU, which has no registers"):
        _ = kernel.n_regs
    assert getattr(kernel, "n_regs", None) is None
    assert not hasattr(kernel, "n_regs")
