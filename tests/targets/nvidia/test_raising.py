"""Loads through pointers as boxes of tensor maps: the same bytes, or a reason why not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.meaning import SCALE
from tests.targets.nvidia.raising import Tried, matrix
from workbench.analysis.affine import Affine
from workbench.analysis.demanded import RULES, Demand, Demanded, Given
from workbench.analysis.forms import Form, number
from workbench.analysis.masks import Bounds, bounds_of
from workbench.ops import Dot, Scan
from workbench.source import KernelError
from workbench.targets.nvidia.box_plans import Plan
from workbench.targets.nvidia.raising import Request, plan


def product(  # noqa: C901
    a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr, INDEX: tl.constexpr, POST: tl.constexpr,
    FORM: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (tiles_n * GROUP) * GROUP
    group = min(tiles_m - first, GROUP)
    rows = (first + pid % (tiles_n * GROUP) % group) * BM + tl.arange(0, BM)
    columns = pid % (tiles_n * GROUP) // group * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    if INDEX == "mod":
        ra, cb = rows % M, columns % N
    elif INDEX == "min":
        ra, cb = tl.minimum(rows, M - 1), tl.minimum(columns, N - 1)
    elif INDEX == "where":
        ra, cb = tl.where(rows < M, rows, 0), tl.where(columns < N, columns, 0)
    else:
        ra, cb = rows, columns
    a_ptrs = a_ptr + ra[:, None] * am + inner[None, :] * ak
    b_ptrs = b_ptr + inner[:, None] * bk + cb[None, :] * bn
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        if FORM == "again":
            a_ptrs = a_ptr + ra[:, None] * am + (k * BK + inner)[None, :] * ak
            b_ptrs = b_ptr + (k * BK + inner)[:, None] * bk + cb[None, :] * bn
        ma, mb = inner[None, :] < K - k * BK, (k * BK + inner)[:, None] < K
        if INDEX == "mask":
            ma, mb = ma & (rows[:, None] < M), mb & (columns[None, :] < N)
        a, b = tl.load(a_ptrs, mask=ma, other=0.0), tl.load(b_ptrs, mask=mb, other=0.0)
        total = tl.dot(a, b, total)
        if FORM != "again":
            a_ptrs += BK * ak
            b_ptrs += BK * bk
    keep = (rows[:, None] < M) & (columns[None, :] < N)
    if POST == "relu":
        total = tl.maximum(total, 0.0)
    elif POST == "columns":
        total += tl.sum(total, 0)[None, :]
    elif POST == "masked columns":
        total += tl.sum(tl.where(keep, total, 0.0), 0)[None, :]
    tl.store(c_ptr + rows[:, None] * cm + columns[None, :], total, mask=keep)


def up(n: int, to: int) -> int:
    return -(-n // to) * to


def one_product(pick: random.Random) -> Counter[str]:
    """Launch a product of random form some times, and return what came of it."""
    BM, BN, BK = (pick.choice([4, 8]) for _ in range(3))
    turned_a, turned_b = pick.random() < 0.4, pick.random() < 0.4
    index = pick.choice(["mod", "min", "where", "mask"])
    post = pick.choice(["", "relu", "columns", "masked columns"])
    words = "*fp32:16 *fp32:16 *fp32:16 i32 i32 i32 "
    words += "i32=1 i32:16 " if turned_a else "i32:16 i32=1 "
    words += "i32=1 i32:16 i32" if turned_b else "i32:16 i32=1 i32"
    sizes = {"BM": BM, "BN": BN, "BK": BK, "GROUP": pick.choice([1, 2, 3]), "INDEX": index,
             "POST": post, "FORM": pick.choice(["step", "again"])}  # fmt: skip
    tried = Tried(product, words, sizes)
    mixes = post == "columns" and index != "mask"  # rows reach a sum over rows
    assert (tried.boxes, len(tried.missed)) == ((1, 1) if mixes else (2, 0)), tried.missed
    if mixes:
        assert "are looked at by tile.reduce" in tried.missed[0]
    found: Counter[str] = Counter()
    for _ in range(4):
        M, N, K = (pick.randint(1, 23) for _ in range(3))
        rows = [(K, M) if turned_a else (M, K), (N, K) if turned_b else (K, N)]
        lda, ldb = (up(n, 16) + pick.choice([0, 16]) for _, n in rows)
        seed = pick.randrange(1 << 30)
        a, b = matrix(*rows[0], lda, seed), matrix(*rows[1], ldb, seed + 1)

        def make(a: Any = a, b: Any = b, rest: Any = (M, N, K, lda, ldb, N)) -> list[Any]:
            return [a.copy(), b.copy(), np.zeros(rest[0] * rest[1], np.float32), *rest]

        found[tried.launch(make, (-(-M // BM) * -(-N // BN),))] += 1
    return found


def test_products_of_every_form_are_raised():
    pick = random.Random("products")
    found = sum((one_product(pick) for _ in range(int(16 * SCALE))), Counter[str]())
    assert set(found) == {"same"}, found


def box(  # noqa: C901
    x_ptr, y_ptr, M, N, ld, h, n, BM: tl.constexpr, BN: tl.constexpr, BY: tl.constexpr,
    ROW: tl.constexpr, COLUMN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TURN: tl.constexpr, MASK: tl.constexpr, STEP: tl.constexpr, POST: tl.constexpr,
):  # fmt: skip
    """One load, its indices and mask of random form; MASK has a letter for each comparison."""
    r = tl.program_id(0) * BY + tl.arange(0, BM) + ROW
    c = tl.program_id(1) * BN + tl.arange(0, BN) + COLUMN
    if ROWS == "mod":
        ri = r % M
    elif ROWS == "min":
        ri = tl.minimum(r, M - 1)
    elif ROWS == "where":
        ri = tl.where(r < M, r, 0)
    elif ROWS == "between":
        ri = tl.where((r < M) & (r >= 0), r, 0)
    elif ROWS == "max":
        ri = tl.maximum(r, 0)
    elif ROWS == "square":
        ri = r * r
    else:
        ri = r
    ci = c % N if COLUMNS == "mod" else tl.minimum(c, N - 1) if COLUMNS == "min" else c
    offsets = ri[:, None] + ci[None, :] * ld if TURN else ri[:, None] * ld + ci[None, :]
    mask = tl.full((BM, BN), True, tl.int1)
    if "u" in MASK:
        mask = mask & (r[:, None] < M)
    if "U" in MASK:
        mask = mask & (r[:, None] < M - 1)
    if "l" in MASK:
        mask = mask & (r[:, None] >= 0)
    if "L" in MASK:
        mask = mask & (r[:, None] > 0)
    if "v" in MASK:
        mask = mask & (c[None, :] < N)
    if "k" in MASK:
        mask = mask & (c[None, :] >= 0)
    if "p" in MASK:
        mask = mask & (tl.program_id(0) * 2 < M)
    if "d" in MASK:
        mask = mask & (r[:, None] + c[None, :] < N)
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(n):
        at = x_ptr + h + (i * r[:, None] if STEP == "varies" else i * STEP) + offsets
        live = mask & (i < 2) if "i" in MASK else mask
        total = total * 2 + tl.load(at, mask=live, other=0.0)
    if POST == "rows":
        total += tl.sum(total, 0)[None, :]
    elif POST == "columns":
        total += tl.sum(total, 1)[:, None]
    y = (r[:, None] < M) & (r[:, None] >= 0) & (c[None, :] < N) & (c[None, :] >= 0)
    tl.store(y_ptr + r[:, None] * 32 + c[None, :], total, mask=y)


def one_box(pick: random.Random) -> Counter[str]:
    """Launch a kernel of one load some times; "refused": none was raised."""
    BM, BN = pick.choice([2, 4, 8]), pick.choice([4, 8])
    turn = BM % 4 == 0 and pick.random() < 0.3
    rows = ["mod", "min", "where", "between", "max", "plain", "plain", "plain"]
    odds = {"d": 0.04, "p": 0.1, "i": 0.1, "U": 0.2}
    sizes = {
        "BM": BM, "BN": BN, "BY": BM if turn else pick.choice([1, BM]),
        "ROW": pick.choice([0, 4] if turn else [0, 0, -1, 2]),
        "COLUMN": pick.choice([0, 0, 0, -4, 4]),
        "ROWS": pick.choice(rows) if pick.random() < 0.95 else "square",
        "COLUMNS": pick.choice(["mod", "min", "plain"]), "TURN": turn,
        "MASK": "".join(c for c in "uUlLvkpdi" if pick.random() < odds.get(c, 0.6)),
        "STEP": "varies" if pick.random() < 0.05 else pick.choice([0, 0, 4, 8, 16]),
        "POST": pick.choice(["", "", "rows", "columns"]),
    }  # fmt: skip
    tried = Tried(box, "*fp32:16 *fp32:16 i32 i32 i32:16 i32:16 i32", sizes)
    found: Counter[str] = Counter()
    if not tried.boxes:
        found["refused"] += 1
        return found
    for _ in range(4):
        M, N, n = pick.randint(1, 9), pick.randint(1, 12), pick.choice([1, 3])
        ld, h = 16 * pick.choice([1, 2]), pick.choice([0, 16, 16, 32])
        size = h + (max(M, 8) + 6) * max(ld, M, 16) + 64 + 100 * n
        x = np.random.default_rng(pick.randrange(1 << 30)).integers(-4, 5, size)

        def make(x: Any = x, rest: Any = (M, N, ld, h, n)) -> list[Any]:
            return [x.astype(np.float32), np.zeros(2048, np.float32), *rest]

        found[tried.launch(make, (pick.randint(1, 3), pick.randint(1, 2)))] += 1
    return found


def test_boxes_of_random_form_read_what_pointers_read():
    pick = random.Random("boxes")
    found = sum((one_box(pick) for _ in range(int(48 * SCALE))), Counter[str]())
    assert found["same"] > found["twin"], found


def rows(  # noqa: C901
    x_ptr, i_ptr, y_ptr, M, ld, h, off, n, step, KIND: tl.constexpr, BM: tl.constexpr,
    D: tl.constexpr,
):  # fmt: skip
    """Loads of one trait each, by KIND; x has rows of D elements, ld apart."""
    pid = tl.program_id(0)
    rr, cc = pid * BM + tl.arange(0, BM), tl.arange(0, D)
    r, c = rr[:, None], cc[None, :]
    keep = r < M
    total = tl.zeros((BM, D), tl.float32)
    if KIND == "gather":
        total = tl.load(x_ptr + tl.load(i_ptr + rr)[:, None] * ld + c, mask=keep, other=0.0)
    elif KIND == "square":
        total = tl.load(x_ptr + r * r * D + c, mask=keep, other=0.0)
    elif KIND == "diagonal":
        total = tl.load(x_ptr + r * ld + c, mask=keep & (r >= c), other=0.0)
    elif KIND == "two bounds":
        total = tl.load(x_ptr + r * ld + c, mask=keep & (r < h + 4) & (r > 1), other=0.0)
    elif KIND == "no lower bound":
        total = tl.load(x_ptr + off + (r - h) * ld + c, mask=r - h < M, other=0.0)
    elif KIND == "lower bound":
        total = tl.load(x_ptr + off + (r - h) * ld + c, mask=(r >= h) & (r - h < M), other=0.0)
    elif KIND == "wrapped":
        total = tl.load(x_ptr + off + (r - h) % M * ld + c, mask=(r >= 0) & (r - h < M), other=0.0)
    elif KIND == "wrapped below":
        at = r - h * 4
        inside = (at >= -9) & (at < M)
        total = tl.load(x_ptr + 448 + at % M * ld + c, mask=inside, other=0.0)
    elif KIND == "inner":
        at = c + pid * h
        total = tl.load(x_ptr + off + r * ld + at, mask=keep & (at < ld), other=0.0)
    elif KIND == "inner of 4":
        at = c + pid * 4
        total = tl.load(x_ptr + off + r * ld + at, mask=keep & (at < ld), other=0.0)
    elif KIND == "base":
        total = tl.load(x_ptr + h + r * ld + c, mask=keep, other=0.0)
    elif KIND == "programs":
        at = r + 8 * tl.num_programs(1)
        total = tl.load(x_ptr + at * ld + c, mask=at < M + 32, other=0.0)
    elif KIND == "loaded bounds":
        page = tl.load(i_ptr + pid)
        at = x_ptr + page * step + r * ld + c
        total = tl.load(at, mask=keep & (page >= 0) & (page < n), other=0.0)
    elif KIND == "loaded bound of 1":
        page = tl.load(i_ptr + pid)
        at = x_ptr + page * step + r * ld + c
        total = tl.load(at, mask=keep & (page >= 1) & (page < n), other=0.0)
    elif KIND == "atomic":
        x = tl.load(x_ptr + r % M * ld + c)
        tl.store(y_ptr + 2048 + r * D + c, total, mask=keep)
        total += tl.atomic_add(y_ptr + 2048 + r * D + c, x, mask=keep)
    elif KIND == "other":
        total = tl.load(x_ptr + r * ld + c, mask=keep, other=1.0)
    elif KIND == "stored":
        tl.store(x_ptr + r * ld + c, total + 7.0, mask=keep)
        total = tl.load(x_ptr + r * ld + c, mask=keep, other=0.0)
    elif KIND == "stride varies":
        for i in range(n):
            total = total * 2 + tl.load(x_ptr + r * ld + c + r * i, mask=keep, other=0.0)
    elif KIND == "equal strides":
        two = tl.program_id(1)
        at = x_ptr + two // 2 * step + two % 2 * step + r * ld + c
        total = tl.load(at, mask=keep, other=0.0)
    elif KIND == "page":
        page = tl.load(i_ptr + pid)
        total = tl.load(x_ptr + page * (16 * step) + r * ld + c, mask=keep, other=0.0)
    elif KIND == "loaded remainder":
        at = (tl.load(i_ptr + pid) - 4) % 8
        total = tl.load(x_ptr + off + (at + r) * ld + c, mask=r < tl.load(i_ptr + 8), other=0.0)
    elif KIND == "page bound":
        last = tl.load(i_ptr + pid)
        total = tl.load(x_ptr + r * ld + c, mask=r < last, other=0.0)
    elif KIND == "column bound":
        last = tl.load(i_ptr + pid)
        total = tl.load(x_ptr + r * ld + c, mask=keep & (c < last), other=0.0)
    elif KIND == "bound below, page bound":
        last = tl.load(i_ptr + pid)
        total = tl.load(x_ptr + r * ld + c, mask=(r >= h) & (r < last), other=0.0)
    elif KIND == "steps":
        for k in range(h, h + n * 3, 3):
            total = total * 2 + tl.load(x_ptr + (r + k // 3) * ld + c, mask=keep, other=0.0)
    elif KIND == "steps of three":
        for k in range(h, h + n * 3, 3):
            total = total * 2 + tl.load(x_ptr + r * ld + k * step + c, mask=keep, other=0.0)
    elif KIND == "down":
        for k in range(n - 1, -1, -1):
            at = x_ptr + (r + k * BM) * ld + c
            total = total * 2 + tl.load(at, mask=r + k * BM < M, other=0.0)
    elif KIND == "flat":
        e = tl.reshape(pid * (BM * D) + tl.arange(0, BM * D), (BM, D))
        total = tl.load(x_ptr + off + e, mask=keep, other=0.0)
    elif KIND == "merged":
        e = tl.reshape(rr[:, None] * D + cc[None, :], (BM * D,))
        total = tl.reshape(tl.load(x_ptr + off + e), (BM, D))
    elif KIND == "merged apart":
        e = tl.reshape(rr[:, None] * ld + cc[None, :], (BM * D,))
        total = tl.reshape(tl.load(x_ptr + off + e), (BM, D))
    elif KIND == "gram":
        k = tl.arange(0, BM) % M
        turned = tl.load(x_ptr + k[None, :] * ld + cc[:, None])
        straight = tl.load(x_ptr + k[:, None] * ld + cc[None, :])
        found = tl.dot(turned, straight)
        e = tl.arange(0, D)[:, None] * D + cc[None, :]
        tl.store(y_ptr + e, found, mask=(tl.arange(0, D)[:, None] < M) & (c < M))
        keep = keep & (r < 0)
    elif KIND == "transposed":
        x = tl.load(x_ptr + r % M * ld + c)
        y = tl.trans(x)
        tl.store(y_ptr + cc[:, None] * 64 + rr[None, :], y, mask=rr[None, :] < M)
        keep = keep & (r < 0)
    elif KIND == "transposed other":
        x = tl.load(x_ptr + r % M * ld + c)
        y = tl.trans(x)
        tl.store(y_ptr + cc[:, None] * 64 + rr[None, :], y, mask=cc[:, None] < M)
        keep = keep & (r < 0)
    elif KIND == "summed":
        total += tl.cumsum(tl.load(x_ptr + r % M * ld + c), 0, reverse=True)
    elif KIND == "selected":
        x = tl.load(x_ptr + r % M * ld + c)
        total += tl.sum(tl.where(keep, x, 0.0), 0)[None, :]
    elif KIND == "handed on":
        x = tl.load(x_ptr + r * ld + c, mask=keep, other=0.0)
        for i in range(n):
            total += tl.where(r < M - n + i, x, 0.0)
            x = tl.load(x_ptr + r % (M - n + i) * ld + c)
    elif KIND == "in the loop":
        x = tl.load(x_ptr + tl.minimum(r, M - 1) * ld + c)
        for i in range(n):
            tl.store(y_ptr + 512 + i * 64 * D + r * D + c, x, mask=r < M - i)
        total += x
    elif KIND == "broadcast":
        x = tl.load(x_ptr + tl.arange(0, BM)[:, None] % M * ld + c)
        total += tl.sum(x, 0)[None, :] + x
    elif KIND == "twice":
        x = tl.load(x_ptr + r % M * ld + c)
        tl.store(y_ptr + 2048 + r * D + c, x)
        total += x
    tl.store(y_ptr + r * D + c, total, mask=keep)


#: KIND: how many loads are raised, what is said of the others, what may come of launches.
ROWS = {
    "gather": (1, "its address reads what tile.load at line 0 gives", "same"),
    "square": (0, "its address is not linear in the coordinates of the tile", ""),
    "diagonal": (0, "its mask couples axes 0 and 1", ""),
    "two bounds": (1, "", "same twin"),
    "no lower bound": (1, "", "same twin"),
    "lower bound": (1, "", "same twin"),
    "wrapped": (1, "", "same twin"),
    "wrapped below": (1, "", "same twin"),
    "inner": (0, "its inner coordinate h·pid is not known to be a multiple of 16 bytes", ""),
    "inner of 4": (1, "", "same"),
    "base": (0, "where its array begins is not known to be a multiple of 16 bytes", ""),
    "programs": (1, "", "same"),
    "loaded bounds": (1, "", "same twin"),
    "loaded bound of 1": (0, "it begins at page, which is read from memory", ""),
    "atomic": (1, "", "same"),
    "other": (0, "other=1.0 feeds a product, outside of a map is 0", ""),
    "stored": (0, "the kernel stores through the same argument", ""),
    "stride varies": (0, "the stride of axis 0, ld + i, is not the same in all programs", ""),
    "equal strides": (1, "", "same"),
    "page": (1, "", "same twin outside"),
    "loaded remainder": (1, "", "same outside"),
    "page bound": (1, "", "same"),
    "column bound": (0, "its bound depends on last, which is read from memory", ""),
    "bound below, page bound": (0, "axis 0 is bounded below, and above by last", ""),
    "steps": (1, "", "same"),
    "steps of three": (1, "", "same"),
    "down": (1, "", "same"),
    "flat": (1, "", "same"),
    "merged": (1, "", "same"),
    "merged apart": (0, "no plain range", ""),
    "gram": (0, "are looked at by tile.dot", ""),
    "transposed": (1, "", "same"),
    "transposed other": (0, "are looked at by", ""),
    "summed": (0, "are looked at by tile.scan", ""),
    "selected": (1, "", "same"),
    "handed on": (1, "are looked at, no mask", "same"),
    "in the loop": (0, "are looked at by tile.store", ""),
    "broadcast": (0, "are looked at by", ""),
    "twice": (0, "are looked at by tile.store", ""),
}


def of_one_trait(kind: str) -> tuple[Tried, set[str]]:
    """Launch a kernel of one trait some times, and return what came of it."""
    words = "*fp32:16 *i32:16 *fp32:16 i32 i32:16 i32 i32:16 i32 i32:16"
    tried = Tried(rows, words, {"KIND": kind, "BM": 8, "D": 8})
    pick = random.Random(kind)
    found: set[str] = set()
    for _ in range(12 if tried.boxes else 0):
        M, ld, h = pick.randint(4, 20), 16 * pick.choice([1, 2]), pick.randint(0, 3)
        off, n, step = 64 * pick.choice([1, 2]), pick.choice([1, 3]), 16 * pick.choice([0, 1, 9])
        x = np.random.default_rng(M).integers(-4, 5, 4000).astype(np.float32)
        index = np.random.default_rng(h).integers(0, 9, 64).astype(np.int32)
        rest = (M, ld, h, off, n, step)

        def make(x: Any = x, index: Any = index, rest: Any = rest) -> list[Any]:
            return [x.copy(), index.copy(), np.full(6000, np.nan, np.float32), *rest]

        found.add(tried.launch(make, (-(-M // 8), 4)))
    return tried, found


@pytest.mark.parametrize("kind", ROWS)
def test_a_load_of_one_trait_is_raised_or_not(kind: str):
    boxes, why, results = ROWS[kind]
    tried, found = of_one_trait(kind)
    assert tried.boxes == boxes, tried.missed
    said = [text.replace(f"line {_line(text)}", "line 0") for text in tried.missed]
    assert bool(why) == bool(said)
    assert any(why in text for text in said) or not why, said
    assert found <= set(results.split()), found
    assert "same" in found or not boxes


def _line(text: str) -> str:
    return text.split(" at line ")[1].split()[0].strip(",") if " at line " in text else "0"


def _all_of_a(self: Demanded, op: Dot, demand: Demand) -> Given:
    return ((v, demand) for v in (op.a, op.b, op.accumulator))


def _one_too_many(facts: Affine, request: Request) -> Plan:
    found = plan(facts, request)
    axes = (replace(axis, extent=axis.extent + number(1)) for axis in found.axes)
    return replace(found, axes=tuple(axes))


def _no_lower_bounds(conjuncts: Iterable[Form], shape: tuple[int, ...]) -> Bounds:
    return replace(bounds_of(conjuncts, shape), lower={})


#: A fault: what is replaced, by what, and the kernel that finds it.
PLANTED: dict[str, tuple[str, Any, str]] = {
    "nobody asks what is looked at": (
        "workbench.targets.nvidia.raising.follows", lambda held, known: True, "broadcast",
    ),
    "a row of a is looked at where that column of the result is": (
        "workbench.analysis.demanded.RULES", {**RULES, Dot: _all_of_a}, "gram",
    ),
    "a scan looks at what its result does": (
        "workbench.analysis.demanded.RULES",
        {**RULES, Scan: lambda self, op, demand: ((v, demand) for v in op.inputs)}, "summed",
    ),
    "the next round's mask is this one's": (
        "workbench.analysis.demanded.Demanded._names", lambda self, form, loop: False, "handed on",
    ),
    "coordinates may be negative": (
        "workbench.targets.nvidia.passes.tma_plans.Plans.ask",
        lambda self, plan, facts: iter(()), "no lower bound",
    ),
    "boxes end an element later": (
        "workbench.targets.nvidia.passes.tma_plans.plan", _one_too_many, "two bounds",
    ),
    "lower bounds are forgotten": (
        "workbench.targets.nvidia.raising.bounds_of", _no_lower_bounds, "two bounds",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch):
    place, planted, kind = PLANTED[fault]
    monkeypatch.setattr(place, planted)
    with pytest.raises((AssertionError, KernelError)):
        assert of_one_trait(kind)[1] <= set(ROWS[kind][2].split()) or not ROWS[kind][0]
