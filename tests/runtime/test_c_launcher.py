"""Kernels as C: it builds without CUDA, and asks a pretended driver what Python would."""

from __future__ import annotations

import inspect
import keyword
import os
import re
import runpy
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import workbench
import workbench as wb
import workbench.language as tl
from tests.kernels import convolution
from tests.runtime.kernels import add, matmul
from workbench.runtime.c_launcher import _TAKEN, Sample, SampleArray, header, launcher
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-overlength-strings")


def build(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["cc", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(folder: Path, *command: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder with a driver that prints what it is asked."""
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("fake_driver.c")
    build(folder, "-shared", "-fPIC", str(source), "-o", "libcuda.so.1")
    return str(folder)


@cache
def product(size: int = 512, **options: object) -> CompiledKernel:
    arrays = [np.zeros((size, size), np.float16) for _ in range(3)]
    return matmul.warmup(
        *arrays, size, size, size, size, size, size, BM=128, BN=128, BK=64,
        grid=(size // 128, size // 128), target="sm_90a", num_warps=8, **options,
    )  # fmt: skip


def test_a_launch_repeats_itself_and_says_what_is_missing(tmp_path: Path, pretended: str) -> None:
    n = 1000
    arrays = [np.zeros(n, np.float32) for _ in range(3)]
    kernel = add.warmup(*arrays, n, BLOCK=256, grid=(4,), target="sm_90a")
    lists = {name: SampleArray(n, 4) for name in ("x_ptr", "y_ptr", "out_ptr")}
    (tmp_path / "add.c").write_text(
        launcher(kernel, "kernel add", Sample((4, 1, 1), {"n": n}, lists))
    )
    build(tmp_path, *WARNINGS, "add.c", "-o", "add")
    missing = run(tmp_path, "./add")
    if "no NVIDIA driver" in missing[2]:  # a machine without one
        assert missing[0] == 1
        assert missing[2].startswith(
            "add: the code cannot be loaded: there is no NVIDIA driver here ("
        )
    code, out, _ = run(tmp_path, "./add", LD_LIBRARY_PATH=pretended, SIZES="8,8,8,4")
    lines = out.splitlines()
    assert code == 0
    assert re.fullmatch(
        r"launch 1 grid 4 1 1 threads 128 shared 0 stream 0:( \d+){3} 1000", lines[0]
    )
    assert lines[1].startswith("out_ptr: ")
    assert len([line for line in lines if line.startswith("launch")]) == 21
    assert lines[-1] == "add, grid (4, 1, 1): 0.5000 ms (median of 20, the caches warm)"
    none = run(tmp_path, "./add", LD_LIBRARY_PATH=pretended, NO_DEVICE="1")
    assert none[0] == 1
    assert "no CUDA-capable device" in none[2]
    other = run(tmp_path, "./add", LD_LIBRARY_PATH=pretended, OTHER_CHIP="1")
    assert "the code is for sm_90a, this GPU is an sm_80" in other[2]


DRIVE = """
#include <stdio.h>
#include <stdlib.h>
#include "matmul.h"
int main(int count, char **words)
{
    uint64_t a = strtoull(words[1], NULL, 0);
    int n[5];
    for (int i = 0; i < 5; i++)
        n[i] = i + 2 < count ? atoi(words[i + 2]) : 4;
    int status = matmul_launch(NULL, (unsigned)n[4], 4, 1, a, a + 1048576, a + 2097152, n[0], n[1],
                               n[2], n[3], n[3], n[3]);
    printf("%d %s\\n", status, matmul_error(status));
    return 0;
}
"""
A = 1 << 32
SIZES = "8,8,8,4,4,4,4,4,4,128,128"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    kernel = product()
    (folder / "matmul.c").write_text(launcher(kernel, "kernel matmul"))
    (folder / "matmul.h").write_text(header(kernel, "kernel matmul"))
    (folder / "drive.c").write_text(DRIVE)
    build(folder, *WARNINGS, "-DNO_MAIN", "matmul.c", "drive.c", "-o", "drive")
    return folder


def test_tensor_maps_are_what_python_makes(library: Path, pretended: str) -> None:
    words = [A, 512, 512, 512, 512]
    _, out, _ = run(library, "./drive", *map(str, words), LD_LIBRARY_PATH=pretended, SIZES=SIZES)
    assert out.splitlines() == [
        f"map 1 type 6 base {A}: 512/64/1 512/128/1 step 1024 modes 0 3 3 0",
        f"map 2 type 6 base {A + 2**20}: 512/64/1 512/64/1 step 1024 modes 0 3 3 0",
        f"launch 1 grid 4 4 1 threads 256 shared {product().launch.dynamic_shared_bytes} stream 0: "
        f"{A} {A + 2**20} {A + 2**21} 512 512 512 512 512 512 map1 map2",
        "0 fine",
    ]


@pytest.mark.parametrize(
    ("words", "which"),
    [
        ((A, 512, 512, 512, 528), "launch 1"),  # rows that begin anywhere in a line
        ((A, 0, 512, 512, 512), "launch 2"),  # no tensor map has an extent of 0
        ((A, 2147483632, 512, 512, 512), "launch 3"),  # 32 bits hold no such index
        ((A, 512, 512, 512, -512), "launch 3"),
        ((A, 512, 512, 512, 512, 0), "0 fine"),
        ((A + 8, 512, 512, 512, 512), "-4 the value of a_ptr is none that the code was compiled"),
        ((A, 510, 512, 512, 512), "-4 the value of M is none that the code was compiled"),
    ],
)
def test_each_launch_gets_code_that_is_right_for_it(
    library: Path, pretended: str, words: tuple[int, ...], which: str
) -> None:
    _, out, _ = run(library, "./drive", *map(str, words), LD_LIBRARY_PATH=pretended, SIZES=SIZES)
    found = [line for line in out.splitlines() if not line.startswith("map")]
    assert found[0].startswith(which)


def test_blocks_that_stay_get_the_grid_and_as_many_as_there_are(
    tmp_path: Path, pretended: str
) -> None:
    kernel = product(persistent=True, num_stages=4)
    rounds = kernel.launch.most_rounds
    assert rounds > 0
    (tmp_path / "matmul.c").write_text(launcher(kernel, "kernel matmul"))
    (tmp_path / "matmul.h").write_text(header(kernel, "kernel matmul"))
    (tmp_path / "drive.c").write_text(DRIVE)
    build(tmp_path, *WARNINGS, "-DNO_MAIN", "matmul.c", "drive.c", "-o", "drive")
    sizes = "8,8,8,4,4,4,4,4,4,8,8,8,128,128"
    for wide, blocks in ((4, 16), (100, 132), (132 * rounds, 4 * 132 * rounds)):
        words = [A, 512, 512, 512, 512, wide]
        _, out, _ = run(
            tmp_path, "./drive", *map(str, words), LD_LIBRARY_PATH=pretended, SIZES=sizes
        )
        launch = next(line for line in out.splitlines() if line.startswith("launch"))
        assert f"grid {blocks} 1 1" in launch
        assert launch.endswith(f" {wide} 4 1 map1 map2")


@wb.jit
def late(out, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_wait()
    tl.store(out + tl.arange(0, BLOCK), 1.0)


def test_what_waits_itself_begins_early_from_c_too(tmp_path: Path, pretended: str) -> None:
    kernel = late.warmup(
        np.zeros(64, np.float32), BLOCK=64, grid=(3,), target="sm_90a", launch_pdl=True
    )
    arrays = {"out": SampleArray(64, 4)}
    (tmp_path / "late.c").write_text(launcher(kernel, "kernel late", Sample((3, 1, 1), {}, arrays)))
    build(tmp_path, *WARNINGS, "late.c", "-o", "late")
    _, out, _ = run(tmp_path, "./late", LD_LIBRARY_PATH=pretended, SIZES="8")
    started = [line for line in out.splitlines() if "launch 1" in line]
    assert started, out
    assert all(line.startswith("1 attribute 6 1: launch 1 grid 3 1 1") for line in started)


def test_whole_clusters_are_started_from_c() -> None:
    text = launcher(product(persistent=True, num_stages=4, cluster=2), "kernel matmul")
    rounds = product(persistent=True, num_stages=4).launch.most_rounds
    assert f".most_blocks, {rounds}, 2);" in text


def test_c_keeps_no_counters_from_which_blocks_draw() -> None:
    with pytest.raises(OptionError, match="draw their programs") as caught:
        launcher(product(persistent=True, num_stages=4, tickets=True), "kernel matmul")
    assert "matmul@tickets=False" in str(caught.value)
    assert "launch_0" in launcher(product(persistent=True, num_stages=4, tickets=False), "")


def test_only_code_of_gpus_is_launched_from_c() -> None:
    n = 8
    arrays = [np.zeros(n, np.float32) for _ in range(3)]
    kernel = add.warmup(*arrays, n, BLOCK=8, grid=(1,), target="cpu")
    with pytest.raises(OptionError, match="compiled for cpu") as caught:
        launcher(kernel, "")
    assert "add@sm_90a" in str(caught.value)


def test_parameters_may_have_names_of_c_and_of_the_file(tmp_path: Path) -> None:
    """What a kernel calls its arguments is nobody else's: words of C and C++, names in the text."""
    own = ("a0", "w1", "q2_3", "m0", "map0", "extents1", "strides0", "box3", "ones2", "größe")
    names = [name for name in (*_TAKEN.split(), *own) if not keyword.iskeyword(name)]
    (tmp_path / "named.py").write_text(
        "import workbench\nimport workbench.language as tl\n\n\n@workbench.jit\n"
        f"def kernel(out_ptr, {', '.join(names)}):\n    tl.store(out_ptr, {' + '.join(names)})\n"
    )
    kernel = runpy.run_path(str(tmp_path / "named.py"))["kernel"]
    found = kernel.warmup(
        np.zeros(1, np.int32), *range(2, len(names) + 2), grid=(1,), target="sm_90a"
    )
    (tmp_path / "kernel.c").write_text(launcher(found, "kernel"))
    (tmp_path / "kernel.h").write_text(header(found, "kernel"))
    (tmp_path / "main.cc").write_text('#include "kernel.h"\nint main() { return 0; }\n')
    build(tmp_path, *WARNINGS, "-c", "kernel.c")
    if shutil.which("c++"):
        build(tmp_path, "-x", "c++", "-fsyntax-only", "-Wall", "-Werror", "main.cc")


def test_rows_that_are_walked_have_maps_of_windows(tmp_path: Path, pretended: str) -> None:
    """3 x 3 taps over 2 images of 14 x 14 places, 64 channels to 64: corners as cuDNN has them."""
    n, c, size, k, taps = 2, 64, 14, 64, 3
    shapes = {"x_ptr": n * size * size * c, "w_ptr": k * taps * taps * c, "bias_ptr": k,
              "out_ptr": n * size * size * k}  # fmt: skip
    names = inspect.signature(convolution.conv2d).parameters
    sizes = [n, c, size, size, k, size, size, 1, 1, 1, 1, 1]
    sizes += [size * size * c, 1, size * c, c, taps * taps * c, 1, taps * c, c]
    sizes += [size * size * k, 1, size * k, k, c, k]
    kernel = workbench.jit(convolution.conv2d).warmup(
        *(np.zeros(count, np.float16) for count in shapes.values()), *sizes, R=taps, S=taps,
        HAS_BIAS=False, BLOCK_M=64, BLOCK_K=64, BLOCK_C=64, num_warps=4, num_stages=3,
        grid=(7, 1, 1), target="sm_90a",
    )  # fmt: skip
    given = dict(zip([*names][len(shapes) :], sizes, strict=False))
    told = {name: value for name, value in given.items() if name in dict(kernel.launch.parameters)}
    lists = {name: SampleArray(count, 2) for name, count in shapes.items()}
    lists = {name: one for name, one in lists.items() if name in dict(kernel.launch.parameters)}
    (tmp_path / "conv.c").write_text(
        launcher(kernel, "kernel conv2d", Sample((7, 1, 1), told, lists))
    )
    build(tmp_path, *WARNINGS, "conv.c", "-o", "conv")
    _, out, wrong = run(tmp_path, "./conv", LD_LIBRARY_PATH=pretended)
    (walked,) = {
        re.sub(r"map \d+|base \d+", "", row) for row in out.splitlines() if "walked" in row
    }
    assert walked == (  # groups are windows of one place, 16 at most
        "walked  type 6 : 64/1 14/1 14/1 16/1 2/1 step 128 step 1792 step 128 step 25088 "
        "from -1 to -1 from -1 to -1 from 0 to -15 box 64 64 modes 0 3 3 0"
    ), wrong
