"""Every kernel of the corpus on the interpreter and on the CPU, against float64."""

from __future__ import annotations

import pytest

from tests.corpus import every
from tests.corpus.sample import Maker, failures, run


def _cases():
    for entry in every.SAMPLES:
        for dtype in entry.dtypes:
            for size in (*entry.fast, *entry.slow):
                for layout in entry.layouts:
                    first = dtype is entry.dtypes[0] and layout == entry.layouts[0]
                    quick = (first and size == entry.fast[-1]) or (
                        # one other type and layout, so that both are tried every time
                        (dtype, layout, size)
                        == (entry.dtypes[-1], entry.layouts[-1], entry.fast[0])
                    )
                    for target in entry.targets:
                        words = "x".join(map(str, size))
                        yield pytest.param(
                            entry, dtype, size, layout, target,
                            id=f"{entry.suite}-{entry.name}-{str(dtype)[6:]}-{words}-{layout}-{target}",
                            marks=() if quick else pytest.mark.slow,
                        )  # fmt: skip


@pytest.mark.parametrize(("entry", "dtype", "size", "layout", "target"), list(_cases()))
def test_kernel_is_right(entry, dtype, size, layout, target):
    make = Maker(dtype, layout=layout)
    problem = entry.build(make, *size)
    run(problem, target)
    assert not list(failures(problem, make))
