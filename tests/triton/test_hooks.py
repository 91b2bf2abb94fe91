"""Hooks of compilations and launches, and what a kernel is specialised on, as Triton has them."""

from __future__ import annotations

import linecache

import pytest

import workbench.triton as triton
import workbench.triton.language as tl
from tests.triton.test_host import outer, store_index
from workbench.runtime import compiling

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("own_cache")


# -- compile hooks ------------------------------------------------------------------------------
@triton.jit(do_not_specialize=["i"])
def store_index_unspecialized(X, i, BLOCK: tl.constexpr):
    tl.store(X, i)


@triton.jit(do_not_specialize_on_alignment=["i"])
def store_index_unaligned(X, i, BLOCK: tl.constexpr):
    tl.store(X, i)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [(store_index, 3), (store_index_unspecialized, 1), (store_index_unaligned, 2)],
)
def test_how_often_a_kernel_is_specialized(knobs, kernel, count):
    seen = []
    knobs.runtime.jit_cache_hook = lambda **told: seen.append(told["key"])
    kernel.device_caches.clear()
    x = torch.empty(1, dtype=torch.int32)
    for i in (1, 2, 4, 8, 16, 32):
        kernel[(1,)](x, i, BLOCK=512)
        assert x.item() == i
    assert len(seen) == len(set(seen)) == count


def test_hooks_are_told_what_is_compiled(knobs):
    before, after = [], []
    knobs.runtime.jit_cache_hook = lambda **told: before.append(told)
    knobs.runtime.jit_post_compile_hook = lambda **told: after.append(told)
    store_index.device_caches.clear()
    store_index[(1,)](torch.empty(1, dtype=torch.int32), 5, BLOCK=64)
    (told,) = before
    assert told["fn"].name == "store_index"
    assert told["fn"].jit_function is store_index
    assert told["compile"]["signature"] == {"X": "*i32", "i": "i32", "BLOCK": "constexpr"}
    assert told["compile"]["constants"] == {"BLOCK": 64}
    assert told["already_compiled"] is False
    assert "store_index[num_warps=" in told["repr"]
    assert [told["key"] for told in after] == [before[0]["key"]]


def test_a_hook_can_forbid_compiling(knobs):
    knobs.runtime.jit_cache_hook = lambda **told: True
    x = torch.zeros(1, dtype=torch.int32)
    store_index.device_caches.clear()
    assert store_index[(1,)](x, 77, BLOCK=32) is None
    assert x.item() == 0


def test_preloading(knobs):
    seen = []
    knobs.runtime.jit_cache_hook = lambda **told: seen.append(told)
    store_index.device_caches.clear()
    x = torch.empty(1, dtype=torch.int32)
    kernel = store_index[(1,)](x, 5, BLOCK=128)
    stored = seen[0]["compile"]["specialization_data"]
    store_index.device_caches.clear()
    compiling.forget()
    assert store_index.preload(stored).hash == kernel.hash
    assert len(store_index.device_caches["cpu"][0]) == 1
    seen.clear()
    store_index[(1,)](x, 7, BLOCK=128)
    assert seen == []
    with pytest.raises(RuntimeError, match="Specialization data is for"):
        outer.preload(stored)


def test_compiled_kernels_by_device(knobs):
    store_index.device_caches.clear()
    kernel = store_index[(1,)](torch.empty(1, dtype=torch.int32), 5, BLOCK=16)
    (cache, *_) = store_index.device_caches["cpu"]
    assert list(cache.values()) == [kernel]
    cache.clear()
    assert not store_index.device_caches[-1][0]


# -- launch hooks -------------------------------------------------------------------------------
def test_launch_hooks_and_metadata(knobs):
    def metadata(grid, kernel, args):
        return {"bytes": 4 * args["n"], "grid": grid, "warps": kernel.num_warps}

    @triton.jit(launch_metadata=metadata, repr=lambda spec: f"fill_{spec.constants['BLOCK']}_wide")
    def fill(X, n, BLOCK: tl.constexpr):
        off = tl.arange(0, BLOCK)
        tl.store(X + off, 1.0, mask=off < n)

    seen = []
    hooks = knobs.runtime
    enter = lambda data: seen.append(("enter", data.get()))  # noqa: E731
    leave = lambda data: seen.append(("exit", data.get()["name"]))  # noqa: E731
    hooks.launch_enter_hook.add(enter)
    hooks.launch_exit_hook.add(leave)
    try:
        kernel = fill[(1,)](torch.zeros(8), 8, BLOCK=16)
    finally:
        hooks.launch_enter_hook.remove(enter)
        hooks.launch_exit_hook.remove(leave)
    fill[(1,)](torch.zeros(8), 8, BLOCK=16)
    assert kernel.name == kernel.metadata.name == "fill_16_wide"
    assert [what for what, _ in seen] == ["enter", "exit"]
    assert seen[0][1] | {"function": None, "stream": None, "warps": None} == {
        "name": "fill_16_wide", "function": None, "stream": None, "bytes": 32, "grid": (1, 1, 1),
        "warps": None,
    }  # fmt: skip
    assert seen[1][1] == "fill_16_wide"


def test_load_hooks(knobs):
    seen = []

    def start(module, function, name, metadata_group, hash):  # noqa: A002
        seen.append(("start", name, hash))

    def end(module, function, name, metadata_group, hash):  # noqa: A002
        seen.append(("end", name, hash))

    @triton.jit
    def kernel(x):
        pass

    hooks = knobs.runtime
    hooks.kernel_load_start_hook.add(start)
    hooks.kernel_load_end_hook.add(end)
    try:
        for _ in range(2):
            found = kernel[(1, 3, 2)](6)
    finally:
        hooks.kernel_load_start_hook.remove(start)
        hooks.kernel_load_end_hook.remove(end)
    assert seen == [("start", "kernel", found.hash), ("end", "kernel", found.hash)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"num_warps": 1}, 1),
        ({"enable_fp_fusion": False}, False),
        ({"extern_libs": {"a": "b"}}, (("a", "b"),)),
    ],
)
def test_options_are_specialized_on(knobs, options, told):
    before, after = [], []

    @triton.jit
    def kernel(x):
        pass

    knobs.runtime.jit_cache_hook = lambda **data: before.append(data)
    knobs.runtime.jit_post_compile_hook = lambda **data: after.append(data["compile"])
    kernel[(1, 1, 1)](6)
    for _ in range(2):
        kernel[(1, 1, 1)](6, **options)
    assert len(before) == 2
    assert after[-1][next(iter(options))] == told


def test_annotated_integers_keep_their_type(knobs):
    @triton.jit
    def kernel(X, i: tl.int32):
        tl.static_assert(i.dtype == tl.int32)
        tl.store(X, i)

    x = torch.empty(1, dtype=torch.int32)
    for value in (1, 8, 16, 17):
        kernel[(1,)](x, value)
        assert x.item() == value
    assert len(kernel.device_caches["cpu"][0]) == 3


def test_the_place_belongs_to_the_key():
    text = "\n{0}@triton.jit\ndef kernel(i):\n    i = i + 1\n"
    keys = set()
    for number in range(2):
        file, whole = f"<place {number}>", text.format("# another line\n" * number)
        linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
        space = {"triton": triton}
        exec(compile(whole, file, "exec"), space)
        keys.add(space["kernel"].cache_key)
    assert len(keys) == 2


@triton.jit
def one():
    return 1


@triton.jit
def total(x, y):
    return x + y


def test_functions_and_their_arguments_as_arguments():
    @triton.jit
    def kernel(Y, fn: tl.constexpr, fn_args):
        tl.store(Y, fn(*fn_args))

    y = torch.zeros(3, dtype=torch.int32)
    for place, (function, arguments) in enumerate([(one, ()), (total, (3, 4)), (one, ())]):
        kernel[(1,)](y[place], function, arguments)
    assert y.tolist() == [1, 7, 1]
