"""Loads through pointers as boxes of tensor maps: the same bytes, or a reason why not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.targets.nvidia.raising import matrix, run


def product(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP: tl.constexpr, INDEX: tl.constexpr, POST: tl.constexpr,
            FORM: tl.constexpr):  # fmt: skip
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


def one_product(pick: random.Random) -> tuple[str, str, list[str]]:
    """Return what is expected of, and what came of, a product of random form."""
    BM, BN, BK = (pick.choice([4, 8]) for _ in range(3))
    M, N, K = (pick.randint(1, 23) for _ in range(3))
    turned_a, turned_b = pick.random() < 0.4, pick.random() < 0.4
    index = pick.choice(["mod", "min", "where", "mask"])
    post = pick.choice(["", "relu", "columns", "masked columns"])
    form = pick.choice(["step", "again"])
    lda, ldb = (up(n, 16) + pick.choice([0, 16]) for n in (M if turned_a else K,
                                                           K if turned_b else N))  # fmt: skip
    seed = pick.randrange(1 << 30)
    a = matrix(*((K, M) if turned_a else (M, K)), lda, seed)
    b = matrix(*((N, K) if turned_b else (K, N)), ldb, seed + 1)
    words = "*fp32:16 *fp32:16 *fp32:16 i32 i32 i32 "
    words += "i32=1 i32:16 " if turned_a else "i32:16 i32=1 "
    words += "i32=1 i32:16 i32" if turned_b else "i32:16 i32=1 i32"
    sizes = {"BM": BM, "BN": BN, "BK": BK, "GROUP": pick.choice([1, 2, 3]), "INDEX": index,
             "POST": post, "FORM": form}  # fmt: skip

    def make() -> list[Any]:
        return [a.copy(), b.copy(), np.zeros(M * N, np.float32), M, N, K, lda, ldb, N]

    grid = (-(-M // BM) * -(-N // BN),)
    wanted = "refused A" if post == "columns" and index != "mask" else "same"
    got, said = run(product, words, sizes, make, grid)
    return wanted, got, said


def test_products_of_every_form_are_raised():
    pick = random.Random("products")
    for _ in range(24):
        wanted, got, said = one_product(pick)
        assert got == "same", (wanted, said)
        missed = [text for text in said if "not raised" in text]
        assert len(missed) == (wanted == "refused A"), said
        if wanted == "refused A":
            assert "are looked at by tile.reduce" in missed[0] or "selected" in missed[0], missed


def box(x_ptr, y_ptr, M, N, ld, h, n, BM: tl.constexpr, BN: tl.constexpr, BY: tl.constexpr,
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
        mask = mask & (0 <= c[None, :])
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


def one_box(pick: random.Random) -> tuple[str, list[str]]:
    BM, BN = pick.choice([2, 4, 8]), pick.choice([4, 8])
    turn = BM % 4 == 0 and pick.random() < 0.3
    M, N = pick.randint(1, 9), pick.randint(1, 12)
    ld, h, n = 16 * pick.choice([1, 2]), pick.choice([0, 16, 16, 32]), pick.choice([1, 3])
    sizes = {
        "BM": BM, "BN": BN, "BY": pick.choice([1, BM]) if not turn else BM,
        "ROW": pick.choice([0, 0, -1, 2] if not turn else [0, 4]),
        "COLUMN": pick.choice([0, 0, 0, -4, 4]),
        "ROWS": pick.choice(["mod", "min", "where", "between", "max", "plain", "plain", "plain"]
                            if pick.random() < .95 else ["square"]),
        "COLUMNS": pick.choice(["mod", "min", "plain"]), "TURN": turn,
        "MASK": "".join(letter for letter in "uUlLvkpdi"
                        if pick.random() < {"d": .04, "p": .1, "i": .1, "U": .2}.get(letter, .6)),
        "STEP": pick.choice([0, 0, 4, 8, 16] + ["varies"] * (pick.random() < .1)),
        "POST": pick.choice(["", "", "rows", "columns"]),
    }  # fmt: skip
    size = h + (max(M, 8) + 6) * max(ld, M, 16) + 64 + 100 * n
    x = np.random.default_rng(pick.randrange(1 << 30)).integers(-4, 5, size).astype(np.float32)

    def make() -> list[Any]:
        return [x.copy(), np.zeros(2048, np.float32), M, N, ld, h, n]

    grid = (pick.randint(1, 3), pick.randint(1, 2))
    return run(box, "*fp32:16 *fp32:16 i32 i32 i32:16 i32:16 i32", sizes, make, grid)


def test_boxes_of_random_form_read_what_pointers_read():
    pick = random.Random("boxes")
    tally = Counter(one_box(pick)[0] for _ in range(120))
    assert tally["same"] > 30, tally
