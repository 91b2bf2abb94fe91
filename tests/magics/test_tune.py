"""`--tune` and `%tune`: the search, its record, its live table, what is launched afterwards."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.magics.cells import default_names
from workbench.source import KernelError
from workbench.tuning.search import Row

torch = pytest.importorskip("torch")

CELL = """
import torch

def mk(N):
    x = torch.arange(float(N))
    return dict(x_ptr=x, out_ptr=torch.zeros_like(x), n=N)

DECORATOR
@kernel(grid=lambda n, BLOCK: (cdiv(n, BLOCK),))
def twice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 256, "a block of at most 256")
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_WORKERS", "0")


def run(options, decorator="", text=CELL):
    names = default_names()
    return wb.run_cell(text.replace("DECORATOR", decorator), f"--target cpu {options}", names)


def test_a_search_comes_first():
    result = run(
        '--make mk --x N=10,1000 --check "x_ptr * 2" --bench --tune BLOCK=64,256,512 --tune-for 60'
    )
    assert result.tune.config.kwargs["BLOCK"] in (64, 256)
    (record,) = [tune for trace in result.traces for tune in trace.runs.tunes]
    assert record.axes == ("BLOCK",)
    states = {row.config["BLOCK"]: row.state for row in record.rows}
    assert states == {64: "ok", 256: "ok", 512: "rejected"}
    assert record.rows[record.best].config["BLOCK"] == result.tune.config.kwargs["BLOCK"]
    assert "a block of at most 256" in record.rows[2].why
    assert result.tune.line.startswith("--set BLOCK=")
    bundle = result.mimebundle()
    assert f"tuned   {result.tune.line}" in bundle["text/plain"]
    assert "rejected: " in bundle["text/html"]
    assert result.check.ok
    (bench,) = result.bench
    assert bench.x == (10, 1000)
    assert f"BLOCK={result.tune.config.kwargs['BLOCK']}" in result.trace.kernel.spec


WRONG = CELL.replace("2 * tl.load", "(2 if BLOCK == 64 else 3) * tl.load")


def test_a_wrong_configuration_is_a_row_with_a_reason():
    result = run('--make mk --x N=1000 --check "x_ptr * 2" --tune BLOCK=64,128', text=WRONG)
    rows = {row.config.kwargs["BLOCK"]: row for row in result.tune.rows}
    assert rows[128].reason.startswith("wrong result: out_ptr differs from x_ptr * 2")
    assert result.tune.config.kwargs == {"BLOCK": 64}
    (record,) = [tune for trace in result.traces for tune in trace.runs.tunes]
    assert [row.state for row in record.rows] == ["ok", "wrong"]


STARTS = CELL.replace(
    "2 * tl.load(x_ptr + offsets, mask=mask)", "0.0 * offsets + tl.program_id(0) * BLOCK"
).replace("DECORATOR", "def starts(x_ptr, BLOCK):\n    return x_ptr - x_ptr % BLOCK\n")


@pytest.mark.parametrize(
    ("check", "wrong"),
    [("starts", ()), ("x_ptr - x_ptr % BLOCK", ()), ("starts(x_ptr, BLOCK)", ()),
     ("starts(x_ptr, 64)", (128,))],
)  # fmt: skip
def test_what_is_right_may_follow_from_what_is_tuned(check: str, wrong: tuple[int, ...]):
    result = run(f'--make mk --x N=1000 --check "{check}" --tune BLOCK=64,128', text=STARTS)
    found = [row.config.kwargs["BLOCK"] for row in result.tune.rows if "wrong" in row.reason]
    assert tuple(found) == wrong
    assert result.check.ok


def test_axes_join_the_configurations_of_autotune():
    decorator = '@autotune([triton.Config({"BLOCK": n}) for n in (32, 64)], key=["n"])'
    result = run("--make mk --x N=1000 --tune warps=2,8", decorator)
    found = {(row.config.kwargs["BLOCK"], row.config.num_warps) for row in result.tune.rows}
    assert found == {(32, 2), (32, 8), (64, 2), (64, 8)}
    tuner = result.kernel
    x, out = torch.arange(1000.0), torch.zeros(1000)
    tuner[lambda meta: (wb.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
    assert tuner.best_config == result.tune.config
    assert torch.equal(out, x * 2)


def test_heuristics_over_autotune():
    text = CELL.replace(
        "DECORATOR",
        '@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})\n'
        '@autotune([triton.Config({"BLOCK": n}) for n in (32, 64)], key=["n", "EVEN"])',
    ).replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr")
    result = run("--make mk --x N=1000 --tune-for 30", text=text)
    assert {row.config.kwargs["BLOCK"] for row in result.tune.rows} == {32, 64}
    assert list(result.kernel.fn.cache.values()) == [result.tune.config]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--tune BLK=64", "no axis 'BLK'; axes: BLOCK, warps, stages, ctas"),
        ("--tune BLOCK=64", "twice has nothing to search among"),
        ("--tune BLOCK", "--tune takes NAME=VALUES, got 'BLOCK'"),
        ("--tune BLOCK=64:8:*1", "--tune BLOCK: '64:8:*1' is not a range that ends"),
        ("--tune BLOCK=64,128 --tune-for 0", "--tune-for takes seconds > 0, got '0'"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(KernelError) as caught:
        run(f"--make mk --x N=1000 {options}")
    assert caught.value.code == "K121"
    assert message in caught.value.message


def test_where_nothing_can_be_built_the_error_is_the_kernels():
    with pytest.raises(KernelError, match="a block of at most 256"):
        run("--make mk --x N=1000 --tune BLOCK=512,1024")


def test_the_arguments_are_left_as_they_were():
    names = default_names()
    text = CELL.replace("DECORATOR", "") + "\nx, out = torch.arange(100.), torch.zeros(100)\n"
    wb.run_cell(
        text,
        '--target cpu --args x,out,100 --check "x * 2" --tune BLOCK=32,64 --as r',
        names,
    )
    assert torch.equal(names["out"], names["x"] * 2)
    assert names["r"].tune.config is not None


def test_the_line_magic_tunes_an_existing_kernel():
    from workbench.magics import lines
    from workbench.magics.grammar import Origin, parse

    names = default_names()
    wb.run_cell(
        CELL.replace("DECORATOR", ""), "--target cpu --make mk --x N=64 --set BLOCK=64", names
    )
    request = parse(
        "tune",
        "twice --target cpu --make mk --x N=500 --tune BLOCK=32,64",
        names,
        Origin("t", 1, 1),
    )
    result = lines.tune(request.name, request, names)
    assert len(result.tune.rows) == 2


def test_the_live_table(monkeypatch):
    pytest.importorskip("IPython")
    from workbench.bench import tuning
    from workbench.magics import progress

    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle)

    monkeypatch.setattr(
        progress, "display", lambda bundle, **_: (shown.append(bundle), Handle())[1]
    )
    rows = [Row(wb.Config({"BLOCK": 2**n})) for n in range(30)]
    with progress.showing_progress(quiet=False):
        table = tuning.progress.get()
        table(rows, "compiling", 0.1)
        assert shown == []
        table(rows, "compiling", 0.3)
        rows[0].state, rows[0].milliseconds = "timing", (0.5, 0.4, 0.6)
        table(rows, "timing", 0.4)
        table(rows, "done", 0.5)
    assert tuning.progress.get() is None
    first, second = (bundle["text/plain"] for bundle in shown[:2])
    assert "compiling: 0 of 30 in 0.3 s; 6 rows more; Stop" in first
    assert "best" in second.splitlines()[1]
    assert "<table>" in shown[0]["text/html"]
    assert shown[2]["text/plain"].endswith("\nbest: --set BLOCK=1 --set warps=4 --set stages=3")
    with progress.showing_progress(quiet=True):
        assert tuning.progress.get() is None
