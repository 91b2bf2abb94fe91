"""Every kernel of the corpus on the interpreter and on the CPU, against float64.

Of its further types, sizes and layouts every fifth one, all with LONG=1 (and on a GPU: `make gpu`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.corpus import every
from tests.corpus.sample import Maker, failures, run


def _cases() -> Iterator[Any]:
    further, every_one = count(), bool(os.environ.get("LONG"))
    for entry in every.SAMPLES:
        for dtype, size, layout in entry.combinations((*entry.fast, *entry.slow)):
            quick = size == entry.fast[-1] and (
                (dtype, layout) == (entry.dtypes[0], entry.layouts[0])
            )
            shown = (entry.suite, entry.name, str(dtype)[6:], "x".join(map(str, size)), layout)
            for target in ("interpreter", "cpu"):
                if not (quick or every_one or next(further) % 5 == 0):
                    continue
                yield pytest.param(
                    entry, dtype, size, layout, target,
                    id="-".join((*shown, target)),
                    marks=() if quick else pytest.mark.slow,
                )  # fmt: skip


@pytest.mark.parametrize(("entry", "dtype", "size", "layout", "target"), list(_cases()))
def test_kernel_is_right(entry, dtype, size, layout, target):
    make = Maker(dtype, layout=layout)
    problem = entry.build(make, *size)
    run(problem, target)
    assert not list(failures(problem, make))


def test_a_wrong_result_fails():
    """The checks themselves: an error of one part in a hundred, a leak, a write outside."""
    (entry,) = (e for e in every.SAMPLES if e.name == "rms_norm")
    for spoil in ("scaled", "missing", "outside"):
        make = Maker(entry.dtypes[0], layout="padded")
        problem = entry.build(make, 3, 100)
        run(problem, "cpu")
        out = problem.launches[0].arguments[1]
        if spoil == "scaled":
            out[1, 2] *= 1.01
        elif spoil == "missing":
            out[2, 99] = float("nan")
        else:
            out.as_strided((1,), (1,), out.storage_offset() + 100).fill_(0)
        assert len(list(failures(problem, make))) == 1
