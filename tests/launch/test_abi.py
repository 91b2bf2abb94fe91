"""Parameters of any size, made at each launch: packed by Python and by native launchers."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import pytest

from tests.launch.test_native import LAUNCH
from workbench.devices.pool import Startable
from workbench.devices.streams import raw_stream
from workbench.launch import native
from workbench.launch.abi import LaunchData, Parameter, offsets
from workbench.launch.assembly import Arguments, Assembly, register_maker
from workbench.launch.native import Launcher
from workbench.launch.native_plan import Plan, Shape, Slot, words_of
from workbench.launch.on_cpu import make_runner
from workbench.source import LaunchError

torch = pytest.importorskip("torch")

#: Of the values (out, n, m): out, then 128 bytes of n, m and 14 numbers, then n.
NUMBERS = tuple(range(1000, 1014))
MADE = (
    Parameter((0,)),
    Parameter((1, 2), "words", 128, 64, NUMBERS),
    Parameter((1,)),
)  # fmt: skip
#: Refuses even numbers.
REFUSE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(ctypes.c_int64)] * 3)(
    lambda data, inputs, destination: 0 if inputs[0] % 2 else 7
)
register_maker("only odd", lambda: ctypes.cast(REFUSE, ctypes.c_void_p).value)


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": 12}, {"alignment": 48}, {"alignment": 256}, {"inputs": (0,) * 33}],
)
def test_what_cannot_be_packed_is_refused(wrong):
    with pytest.raises(ValueError, match="cannot be a parameter"):
        Parameter(**{"inputs": (0,), "maker": "words", "size": 64} | wrong)
    with pytest.raises(ValueError, match="nothing makes it"):
        Parameter((0, 1))


def test_offsets_follow_alignment():
    assert offsets(MADE) == ([0, 64, 192], 200)


def test_python_packs_them():
    arguments = Arguments(3, MADE)
    struct.pack_into("<qqq", arguments.memory, 0, 77, 5, 6)
    assert arguments.assemble() == 0
    pointers = (ctypes.c_void_p * 3).from_address(arguments.pointers)
    assert ctypes.c_int64.from_address(pointers[0]).value == 77
    assert tuple((ctypes.c_int64 * 16).from_address(pointers[1])) == (5, 6, *NUMBERS)
    assert pointers[1] % 64 == 0
    assert ctypes.c_int64.from_address(pointers[2]).value == 5


@pytest.mark.skipif(not native.supported(), reason="another object layout")
def test_native_launchers_pack_them():
    launched = []

    def run(code, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        block = (ctypes.c_int64 * 16).from_address(pointers[1])
        ends = [ctypes.c_int64.from_address(pointers[n]).value for n in (0, 2)]
        launched.append((tuple(block), ends, pointers[1] % 64))
        return 0

    callback = LAUNCH(run)
    slots = (Slot("one", "i", 1), Slot("out", "t", 2), Slot("n", "i", 3), Slot("m", "i", 4))
    plan = Plan(Shape(5), slots, ctypes.cast(callback, ctypes.c_void_p).value)
    launcher = Launcher(plan, lambda *args: "slow")
    call, out = launcher.function(), torch.zeros(4)
    words = words_of(plan, (1, out, 5, 7))
    # The first argument is 1, which the code does not receive.
    assembly = Assembly(MADE, [1, 2, 3])
    launcher.add(words, 9, 1, 0, [1, 2, 3], "ran", assembly=assembly)
    for n, m in ((5, 7), (11, 2**31 - 1)):
        assert call((1,), 1, out, n, m) == "ran"
        assert launched.pop() == ((n, m, *NUMBERS), [out.data_ptr(), n], 0)


@pytest.mark.skipif(not native.supported(), reason="another object layout")
def test_what_a_maker_refuses_is_left_to_python():
    callback = LAUNCH(lambda *_: 0)
    plan = Plan(Shape(2), (Slot("n", "i", 1),), ctypes.cast(callback, ctypes.c_void_p).value)
    launcher = Launcher(plan, lambda *args: "slow")
    call = launcher.function()
    for n in (7, 6):
        words = words_of(plan, (n,))
        assembly = Assembly([Parameter((0,), "only odd", 64)])
        launcher.add(words, 9, 1, 0, [0], "ran", assembly=assembly)
    assert call((1,), 9) == "ran"
    assert call((1,), 10) == "slow"


def test_an_unknown_maker_is_an_error():
    with pytest.raises(LaunchError, match="'tesseract' makes"):
        Assembly([Parameter((0,), "tesseract", 64)])


# -- the CPU ----------------------------------------------------------------------------------
def summing_code():
    """Return an object file whose programs add what lies in the parameter to their element."""
    from workbench.targets.llvm.toolchain import Machine, host, object_code

    adds = "\n".join(
        f"  %p{k} = getelementptr i64, ptr %block, i64 {k}\n  %v{k} = load i64, ptr %p{k}\n"
        f"  %s{k + 1} = add i64 %s{k}, %v{k}"
        for k in range(16)
    )
    text = f"""
define void @sums(ptr %args, ptr %scratch, i64 %first, i64 %end) {{
entry:
  %out = load ptr, ptr %args
  %block = getelementptr i8, ptr %args, i64 64
  %n_at = getelementptr i8, ptr %args, i64 192
  %n = load i32, ptr %n_at
  %s0 = sext i32 %n to i64
{adds}
  br label %each
each:
  %i = phi i64 [ %first, %entry ], [ %i1, %each ]
  %where = getelementptr i64, ptr %out, i64 %i
  store i64 %s16, ptr %where
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %end
  br i1 %more, label %each, label %done
done:
  ret void
}}"""
    return object_code(text, Machine(*host(), 2, True))


@pytest.mark.parametrize("programs", [1, 64])
def test_code_of_the_cpu_receives_them(programs):
    run = make_runner(summing_code(), "sums", 64, "<Qi4xi4x", made=MADE)
    out = torch.zeros(programs, dtype=torch.int64)
    expected = sum(NUMBERS) + 5 + 6 + 5
    run(programs, 1, 1, out.data_ptr(), 5, 6)
    assert (out == expected).all()
    if native.supported():
        out.zero_()
        starts, _ = offsets(MADE)
        places = [(start, p.size) for start, p in zip(starts, MADE, strict=True)]
        code = Startable(run.function, 64, places, MADE)
        plan = Plan(
            Shape(4), (Slot("o", "t", 1), Slot("n", "i", 2), Slot("m", "i", 3)), code.launch
        )
        launcher = Launcher(plan, lambda *args: pytest.fail("left to Python"))
        words = words_of(plan, (out, 5, 6))
        launcher.add(words, code.handle, 1, 0, [0, 1, 2], "ran", assembly=Assembly(MADE))
        assert launcher.function()((programs,), out, 9, 6) == "ran"
        assert (out == expected + 8).all()


# -- a GPU ------------------------------------------------------------------------------------
PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry sums(.param .u64 out, .param .align 64 .b8 block[128], .param .u32 n)
{
  .reg .b64 %o, %s, %v;
  .reg .b32 %n;
  ld.param.u64 %o, [out];
  cvta.to.global.u64 %o, %o;
  ld.param.u32 %n, [n];
  cvt.s64.s32 %s, %n;
""" + "".join(
    f"  ld.param.u64 %v, [block+{8 * k}];\n  add.s64 %s, %s, %v;\n" for k in range(16)
) + "  st.global.u64 [%o], %s;\n  ret;\n}\n"  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_kernel_of_the_gpu_receives_them():
    from workbench.launch import on_cuda

    arguments = (("out", "*i64"), ("n", "i32"), ("m", "i32"))
    launch = LaunchData("sums", "ptx", arguments, threads=32, made=MADE)
    kernel = SimpleNamespace(
        launch=launch, code=PTX.encode(), name="sums", target="sm_80", loaded={}, module=None
    )
    torch.zeros(1, device="cuda")
    run = on_cuda.load(kernel, 0)
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    expected = sum(NUMBERS) + 5 + 6 + 5
    assert run(1, 1, 1, torch.cuda.current_stream().cuda_stream, out.data_ptr(), 5, 6) is kernel
    assert out.item() == expected
    code = run.native
    slots = (Slot("o", "t", 1), Slot("n", "i", 2), Slot("m", "i", 3))
    plan = Plan(Shape(4), slots, code.launch, raw_stream())
    launcher = Launcher(plan, lambda *args: pytest.fail("left to Python"))
    words, assembly = words_of(plan, (out, 5, 6)), Assembly(code.made)
    launcher.add(words, code.handle, 32, 0, [0, 1, 2], "ran", assembly=assembly)
    for n in (5, 7, 9):
        assert launcher.function()((1,), out, n, 6) == "ran"
        assert out.item() == expected + 2 * (n - 5)
