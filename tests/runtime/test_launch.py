"""Launches on the CPU target, through every launcher and the caches."""

from __future__ import annotations

import linecache
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add, fill, offset_fill
from workbench import tl
from workbench.launch import fastpath
from workbench.launch.binding import bind_names, classify
from workbench.launch.measures import measure_integer
from workbench.runtime import cache, compiling, hooks
from workbench.runtime.cache import CacheWarning
from workbench.trace import problems

torch = pytest.importorskip("torch")


def arguments(n):
    return torch.randn(n), torch.randn(n), torch.zeros(n)


def blocks(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


def test_tensors_and_arrays():
    x, y, out = arguments(100)
    assert add[(13,)](x, y, out, 100, BLOCK=8).target == "cpu"
    assert torch.equal(out, x + y)
    out.zero_()
    add[(13,)](x.numpy(), y.numpy(), out.numpy(), 100, BLOCK=8)
    assert torch.equal(out, x + y)


def test_every_launcher_gives_the_same():
    kernel = wb.jit(add.fn)
    for n in [100, 96, 1, 101] * fastpath.NATIVE_AFTER:
        x, y, out = arguments(n)
        for grid in [(wb.cdiv(n, 8),), blocks]:
            out.zero_()
            kernel[grid](x, y, out, n, BLOCK=8)
            assert torch.equal(out, x + y)


def test_scalars_of_every_kind():
    for value, n in [(2.5, 7), (3, 7), (1, 7), (True, 7), (0.5, 1), (2**40, 16)]:
        out = torch.zeros(32, dtype=torch.float64)
        for _ in range(2):
            fill[(8,)](out, value, n)
            assert out.tolist() == [float(value)] * n + [0] * (32 - n)


@wb.jit
def floats(out_ptr, half: tl.float16, brain: tl.bfloat16, single, double: tl.float64):
    tl.static_assert(half.dtype == tl.float16 and brain.dtype == tl.bfloat16)
    tl.store(out_ptr, half)
    tl.store(out_ptr + 1, brain)
    tl.store(out_ptr + 2, single)
    tl.store(out_ptr + 3, double)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_floats_are_rounded_to_the_types_of_their_parameters(target):
    out = torch.zeros(4, dtype=torch.float64)
    inf, third = float("inf"), 1 / 3
    cases = [
        ((third, third, third, third), [0.333251953125, 0.333984375, np.float32(third), third]),
        ((1e6, 1e300, -1e300, 1e300), [inf, inf, -inf, 1e300]),
    ]
    for given, want in [*cases, *cases]:  # at first bound with care, then by generated launchers
        floats[(1,)](out, *given, target=target)
        assert out.tolist() == want
    assert "ptx" in floats.warmup(torch.float64, *cases[0][0], grid=(1,), target="sm_90a").asm


@wb.jit
def small(out_ptr, n: tl.int8):
    tl.store(out_ptr, n)


def test_integers_that_their_type_does_not_hold_are_refused_at_every_launch():
    out = torch.zeros(1, dtype=torch.int32)
    for value in (3, 5, -128):
        small[(1,)](out, value)
        assert out.tolist() == [value]
    for wrong in (130, -129, 2**70):
        with pytest.raises(wb.KernelError) as caught:
            small[(1,)](out, wrong)
        assert caught.value.code == "K501"
        assert isinstance(caught.value, OverflowError)
    assert out.tolist() == [-128]


@wb.jit
def applied(out_ptr, F: tl.constexpr):
    tl.store(out_ptr, F(10))


@wb.jit
def applied_first(out_ptr, given):
    tl.store(out_ptr, given[0](given[1]).to(given[2]))


def adding(number):
    by = tl.constexpr(number)

    @wb.jit
    def plus_number(x):
        return x + by

    def plain(x):
        return x + by

    return plus_number, plain


def test_functions_of_one_text_that_capture_other_values_are_told_apart():
    out = torch.zeros(1, dtype=torch.int32)
    for number in (1, 2, 3, 1, 2):
        for function in adding(number):
            applied[(1,)](out, function)
            assert out.item() == 10 + number
        applied_first[(1,)](out, (adding(number)[0], 20, tl.int64))
        assert out.item() == 20 + number


def test_a_function_that_is_passed_follows_what_it_calls(monkeypatch):
    @wb.jit
    def outer(x):
        return scale(x)  # noqa: F821 - defined by the test

    out = torch.zeros(1, dtype=torch.int32)
    times = {"twice": "return x * 2", "thrice": "return x * 3"}
    for word in ("twice", "thrice", "twice"):
        monkeypatch.setitem(globals(), "scale", defined(times[word]))
        for number in range(3 * fastpath.NATIVE_AFTER):  # by every launcher
            applied_first[(1,)](out, (outer, number, tl.int32))
            assert out.item() == number * (2 if word == "twice" else 3)
            applied[(1,)](out, outer)
            assert out.item() == 10 * (2 if word == "twice" else 3)


def defined(body):
    space = {}
    text = f"def scale(x):\n    {body}\n"
    name = f"<a cell with {body}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
    return wb.jit(space["scale"])


def test_members_of_tuples_that_are_no_numbers_are_part_of_the_kernel():
    @wb.jit
    def total(out_ptr, given):
        tl.store(out_ptr, given[0] + given[1])

    out = torch.zeros(1)
    for number in range(2 * fastpath.NATIVE_AFTER):
        for first in (np.int64(3), tl.constexpr(4), np.float32(0.5), 2, torch.tensor(5).item()):
            total[(1,)](out, (first, number))
            assert out.item() == getattr(first, "value", first) + number


def test_a_constexpr_may_be_a_number_of_numpy_and_no_tensor():
    @wb.jit
    def scaled(out_ptr, by: tl.constexpr):
        tl.store(out_ptr, by * 2.0)

    out = torch.zeros(1)
    for by in (np.int64(3), np.float64(0.5), np.float32(0.25), np.int64(4), 5):
        scaled[(1,)](out, by)
        assert out.item() == by * 2
    for given in (torch.tensor(3), np.array(3)):
        with pytest.raises(wb.source.KernelError, match=r"K220.*elements are not known"):
            scaled[(1,)](out, given)


@wb.jit(debug=True)
def checked(out_ptr, n):
    offsets = tl.program_id(0) * 4 + tl.arange(0, 4)
    tl.device_assert(offsets + n < 16, "inside", mask=offsets > 0)
    assert n != -1
    tl.store(out_ptr + offsets, offsets + n)


def test_the_environment_turns_assertions_on_for_all(monkeypatch):
    monkeypatch.setenv("TRITON_DEBUG", "1")
    out = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="inside"):
        checked[(2,)](out, 9, debug=False)


def test_assertions_that_fail_on_the_cpu_are_errors_of_their_launch():
    out = torch.zeros(8, dtype=torch.int32)
    cases = [(2, None), (9, "inside"), (2, None), (-1, "n != -1"), (8, None)]
    for forget in (False, True):  # also of code that comes from the disk
        if forget:
            compiling.forget()
            checked.forget_launches()
        for n, words in cases:
            if words is None:
                checked[(2,)](out, n)
                assert out.tolist() == list(range(n, n + 8))
                continue
            with pytest.raises(RuntimeError, match=words) as caught:
                checked[(2,)](out, n)
            assert caught.value.code == "K510"
            assert ("device_assert" if n == 9 else "assert n") in str(caught.value)
    checked[(2,)](out, 9, debug=False)
    assert out.tolist() == list(range(9, 17))


def test_the_second_launch_compiles_nothing():
    x, y, out = arguments(100)
    first = wb.jit(add.fn)[(13,)](x, y, out, 100, BLOCK=8)
    assert wb.jit(add.fn)[(13,)](x, y, out, 100, BLOCK=8) is first


def test_indices_that_need_more_than_32_bits_take_the_exact_twin():
    """Nothing is accessed: all programs lie beyond n."""
    kernel = wb.jit(offset_fill.fn)
    out = torch.zeros(4)
    narrow = kernel[(1,)](out, 5, 4, BLOCK=4)
    for _ in range(2):
        wide = kernel[(1,)](out, 2**30, 4, BLOCK=4)
    assert narrow.launch.narrow_index
    assert not wide.launch.narrow_index
    assert not out.any()


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_was_compiled_without_a_launch_does_not_choose_for_launches(forgotten):
    """Its indices have 64 bits, as nothing is known of any launch; this one's fit 32."""
    shown = wb.compile(offset_fill.fn, "*fp32:16 i32 i32", {"BLOCK": 4}, target="cpu")
    assert not shown.launch.narrow_index
    if forgotten:  # but on disk
        assert shown.code
        compiling.forget()
    kernel = wb.jit(offset_fill.fn)
    out = torch.zeros(4)
    narrow = kernel[(1,)](out, 5, 4, BLOCK=4)
    assert narrow.signature.arguments == shown.signature.arguments
    assert narrow.launch.narrow_index
    assert kernel[(1,)](out, 2**30, 4, BLOCK=4) is not narrow  # which takes 64 bits
    assert not out.any()


def test_observers_see_launches_of_all_launchers():
    from workbench.runtime.jit import observing

    kernel = wb.jit(add.fn)
    seen = []
    x, y, out = arguments(100)
    for _ in range(3):
        kernel[(13,)](x, y, out, 100, BLOCK=8)
    with observing(seen.append):
        kernel[(13,)](x, y, out, 100, BLOCK=8)
    assert [record.kernel.target for record in seen] == ["cpu"]


def test_blocks_that_hide_observers_may_overlap_theirs():
    """As blocks of several threads do."""
    before, seen = list(hooks.watchers), []
    outer, inner = hooks.observing(seen.append), hooks.observing(seen.append)
    first, second = hooks.unobserved(), hooks.unobserved()
    outer.__enter__()
    first.__enter__()
    second.__enter__()
    inner.__enter__()
    assert len(hooks.watchers) == len(before) + 1  # of two, one began after it
    hooks.tell_observers(None)
    assert seen == [None]
    first.__exit__(None, None, None)
    hooks.tell_observers(None)
    assert seen == [None] * 2
    outer.__exit__(None, None, None)
    second.__exit__(None, None, None)
    hooks.tell_observers(None)
    assert seen == [None] * 3
    inner.__exit__(None, None, None)
    assert hooks.watchers == before


def test_pre_run_hooks():
    kernel, seen = wb.jit(add.fn), []
    kernel.add_pre_run_hook(lambda *args, **given: seen.append((args[3], given)))
    x, y, out = arguments(100)
    for _ in range(2):
        kernel[(13,)](x, y, out, 100, BLOCK=8)
    assert seen == [(100, {"BLOCK": 8})] * 2


def test_compiled_kernels_are_launched_with_run_time_arguments():
    x, y, out = arguments(96)
    signature = "*f32 *f32 *f32 i32:16"
    kernel = wb.compile(add, signature, {"BLOCK": 8}, target="cpu")
    kernel[(12,)](x, y, out, 96)
    assert torch.equal(out, x + y)
    with pytest.raises(wb.KernelError, match="n = 97 is not a multiple of 16"):
        kernel[(12,)](x, y, out, 97)
    with pytest.raises(wb.KernelError, match="was compiled to take 4 arguments, got 2"):
        kernel[(12,)](x, y)


def test_compiled_kernels_take_what_is_1_or_leave_it_out():
    """A launch cache may keep arguments that are declared constexprs apart, but no others."""

    @wb.jit
    def scaled(out, step, by, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK) * step, by)

    out = torch.zeros(8)
    kernel = scaled[(1,)](out, 1, 3, BLOCK=8)
    for given in ((1, 5, 8), (1, 5), (5,)):
        out.zero_()
        kernel[(1,)](out, *given)
        assert out.tolist() == [5] * 8
    with pytest.raises(wb.KernelError, match="step = 2 is not 1, for which this code was"):
        kernel[(1,)](out, 2, 5)


def test_stages_and_numbers():
    kernel = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    assert list(kernel.asm) == ["source", "ast", "tile", "llvm", "asm"]
    assert set(kernel.stages) == set(kernel.asm)
    assert kernel.asm["ttir"] == kernel.asm["tile"]
    assert "ptx" not in kernel.asm
    with pytest.raises(KeyError, match="no stage 'ptx' for cpu; there are source, ast, tile"):
        _ = kernel.asm["ptx"]
    assert kernel.outputs == ("out_ptr",)
    assert problems(kernel.trace) == []


# -- the cache ----------------------------------------------------------------------------------
SCRIPT = textwrap.dedent(
    """
    import sys
    import numpy as np
    from tests.runtime.kernels import add
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel = add[(13,)](x, x, out, 100, BLOCK=8)
    assert np.array_equal(out, x + x)
    print(kernel.from_cache)
    """
)


def in_another_process():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split(), done.stderr


def test_another_process_finds_the_code():
    assert in_another_process()[0] == ["False"]
    assert in_another_process()[0] == ["True"]


def test_a_damaged_entry_is_compiled_again():
    in_another_process()
    for file in cache.directory().glob("v*/*"):
        file.write_bytes(b"not an object file")
    found, warning = in_another_process()
    assert found == ["False"]
    assert "is damaged" in warning
    assert in_another_process() == (["True"], "")


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    x, y, out = arguments(100)
    with pytest.warns(CacheWarning):
        wb.jit(add.fn)[(13,)](x, y, out, 100, BLOCK=8)
    assert torch.equal(out, x + y)


def compiled():
    kernel = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    assert kernel.code
    return kernel


def test_a_trace_is_restored_from_the_disk():
    fresh = compiled()
    assert not fresh.trace.kernel.cached
    compiling.forget()
    again = compiled()
    assert again.from_cache
    assert again.trace.kernel.cached
    assert again.trace.id == fresh.trace.id
    assert dict(again.stages) == dict(fresh.stages)


def test_a_trace_that_nobody_looked_at_is_made_when_asked_for():
    compiled()
    compiling.forget()
    again = compiled()
    assert again.from_cache
    assert "tile.load" in again.asm["tile"]
    assert again.module.name == "add"


def test_not_cached_compiles_again():
    first = compiled()
    second = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu", cached=False)
    assert second is not first
    assert not second.from_cache
    assert second.code == first.code


def test_the_same_text_elsewhere_shares_code_but_not_places(tmp_path):
    text = "def store(x_ptr):\n    tl.store(x_ptr, 2.0)\n"
    kernels = []
    for name, above in [("one", ""), ("two", "\n\n\n")]:
        file = tmp_path / f"{name}.py"
        file.write_text(above + text)
        space = {"tl": wb.tl}
        exec(compile(above + text, str(file), "exec"), space)
        kernels.append(wb.compile(wb.jit(space["store"]), "*f32", target="cpu"))
    one, two = kernels
    assert one.hash == two.hash
    assert one.code == two.code
    assert [k.trace.sources[0].line0 for k in kernels] == [1, 4]


def test_numbers_that_differ_make_other_kernels():
    x, y, out = (np.zeros(16, np.float32) for _ in range(3))
    kinds = {
        add[(1,)](x, y, out, n, BLOCK=block, **options).hash
        for n, block, options in [(7, 4, {}), (16, 4, {}), (1, 4, {}), (7, 8, {})]
    }
    assert len(kinds) == 4


@wb.jit
def strided(out_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets * stride, 1.0, mask=offsets < n)


def test_a_compiled_kernel_gets_wider_indices_where_it_needs_them(monkeypatch):
    out = torch.zeros(64)
    kernel = strided[(1,)](out, 7, 5, BLOCK=8)
    assert kernel.launch.narrow_index
    asked = []
    twin_of = compiling.twin_of
    monkeypatch.setattr(compiling, "twin_of", lambda k: asked.append(twin_of(k)) or asked[-1])
    kernel[(1,)](out, 7, 3, 8)
    assert not asked
    kernel[(1,)](out, 1, 2**30 + 1, 8)  # only the first element is stored to
    assert not asked[0].launch.narrow_index


@wb.jit
def over_members(pair, scale, extra, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(pair[0] + offsets, mask=mask) * scale[0]
    if extra is not None:
        x += tl.load(extra + offsets, mask=mask)
    tl.store(pair[1] + offsets, x + scale[1], mask=mask)


def test_tuples_and_none_in_turns():
    kernel = wb.jit(over_members.fn)
    x, y, out = arguments(100)
    for count in range(3 * fastpath.NATIVE_AFTER):
        extra, shift = (y if count % 3 else None), 1 + count % 2
        out.zero_()
        kernel[(1,)]((x, out), (2, shift), extra, 100, BLOCK=128)
        torch.testing.assert_close(out, 2 * x + shift + (0 if extra is None else y))


def test_a_tuple_launched_again_is_not_bound_again(monkeypatch):
    kernel = wb.jit(over_members.fn)
    x, _, out = arguments(100)
    kernel[(1,)]((x, out), (9, 3), None, 97, BLOCK=128)
    monkeypatch.setattr(kernel, "_careful", lambda *_: pytest.fail("bound with care"))
    for factor in (5, 7):
        kernel[(1,)]((x, out), (factor, 3), None, 99, BLOCK=128)
        torch.testing.assert_close(out[:99], factor * x[:99] + 3)


def test_a_descriptor_launched_again_is_not_bound_again(monkeypatch):
    from workbench.launch.descriptors import TensorDescriptor

    @wb.jit
    def double(source, out, BLOCK: tl.constexpr):
        row = tl.program_id(0) * BLOCK
        out.store([row, 0], source.load([row, 0]) * 2)

    def launch(rows):
        x = torch.randn(rows, 16)
        out = torch.zeros_like(x)
        given = [TensorDescriptor.from_tensor(array, [4, 16]) for array in (x, out)]
        double[(wb.cdiv(rows, 4),)](*given, BLOCK=4)
        assert torch.equal(out, 2 * x)

    launch(5)
    with monkeypatch.context() as patch:
        patch.setattr(double, "_careful", lambda *_: pytest.fail("bound with care"))
        launch(7)
        launch(11)
    launch(1)  # an extent of 1 is another specialisation
    launch(16)


def careful_launches(monkeypatch, kernel) -> list[int]:
    """Return a list that grows with every launch of a kernel that is bound with care."""
    seen, careful = [], kernel._careful

    def count(*given):
        seen.append(1)
        return careful(*given)

    monkeypatch.setattr(kernel, "_careful", count)
    return seen


def test_a_launcher_that_was_kept_gets_as_fast_as_the_kernel(monkeypatch):
    """`kernel[grid]` from before the first launch knows the code that was generated after it."""
    kernel = wb.jit(add.fn)
    kept = kernel[(3,)]
    x, y, out = torch.arange(7.0), torch.ones(7), torch.zeros(7)
    seen = careful_launches(monkeypatch, kernel)
    for _ in range(40):  # native code takes over on the way
        kept(x, y, out, 7, BLOCK=3)
    assert torch.equal(out, x + y)
    assert len(seen) == 1


def test_strides_say_what_accesses_need():
    """Of rows of 2-byte elements 8 must divide the stride, of 4-byte elements 4."""
    kernel = wb.jit(over_members.fn)
    for dtype, needed in ((torch.float16, 8), (torch.float32, 4), (torch.int8, 16)):
        x, out = torch.ones(100, dtype=dtype), torch.ones(100, dtype=dtype)
        found, numbers = [], (39, 36, 40, 48, 56, 44, 52, 38)
        for n in numbers:
            call = bind_names(kernel.kernel_source, ((x, out), (2, 3), None, n), {"BLOCK": 128})
            classify(kernel.kernel_source, kernel.declared, call)
            found.append(dict(call.known)["n"].divisible)
        expected = [max(d for d in (16, needed, 1) if n % d == 0) for n in numbers]
        assert found == expected


def test_small_integers_are_told_apart_by_16_and_1_only():
    words = {n: measure_integer(n)[:2] for n in (1, 2, 4, 8, 24, 31, 16, 0, -16, -4, -31)}
    assert {n for n, (_, alignment) in words.items() if alignment == 16} == {16, 0, -16}
    assert {alignment for _, alignment in words.values()} == {1, 16}


@pytest.mark.parametrize("launches", [1, fastpath.NATIVE_AFTER + 1])
def test_a_new_integer_costs_what_a_known_one_does(monkeypatch, launches):
    x, _, out = arguments(100)

    @wb.jit
    def shifted(x_ptr, out_ptr, n, seed, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + seed % n, mask=offsets < n)

    for _ in range(launches):
        shifted[(1,)](x, out, 101, 3, BLOCK=64)
    for name in ("_careful", "_slow", "_obtain"):
        monkeypatch.setattr(shifted, name, lambda *_, **__: pytest.fail("not the fast way"))
    for seed in range(5, 4000, 36):
        for n in (7, 31, 101):
            shifted[(1,)](x, out, n, seed, BLOCK=64)
            count = min(n, 64)
            torch.testing.assert_close(out[:count], x[:count] + seed % n)


def test_integers_beyond_64_bits_signed_are_their_own_type():
    @wb.jit
    def keep(out_ptr, n):
        tl.store(out_ptr, (n >> 60).to(tl.int64))

    out = torch.zeros(1, dtype=torch.int64)
    for n in [2**40 + 16, 2**63 + 16] * 2:
        keep[(1,)](out, n)
        assert out.item() == n >> 60
