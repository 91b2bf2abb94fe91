"""Options of the test run."""

import gc
from pathlib import Path
from typing import Any

import pytest

#: Files that take longest, the longest first (tests/run.py prints them). Whoever takes one of them
#: last works alone while the others have nothing left.
LONGEST = (
    "notebooks/test_stories.py", "browser/test_lab.py", "browser/test_page.py",
    "inductor/test_torch_compile.py", "corpus/test_corpus.py",
    "targets/nvidia/test_tensor_family.py", "puzzles/test_puzzles.py", "targets/cpu/test_ops.py",
    "targets/nvidia/test_warpgroups.py", "passes/test_promises.py", "files/test_files.py",
    "targets/test_long_sources.py", "fuzz/test_programs.py", "targets/nvidia/test_persistent.py",
    "gpu/test_run.py", "targets/nvidia/test_dequantised.py", "analysis/test_affine.py",
    "targets/test_narrow_integers.py", "bench/test_compare.py", "bench_room/test_reproducer.py",
    "magics/test_stops.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files to what comes out; read the diff"
    )
    parser.addoption(
        "--share", default="1/1", help="run one of so many shares of the tests, e.g. 2/8"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that take long first, so that processes that take files end together.

    Then keep one share; shares of equal runs have every test once.
    """
    order = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "browser")))}
    items.sort(key=lambda item: (order.get(item.path, len(order)), item.path not in slow))
    number, shares = map(int, config.getoption("--share").split("/"))
    if shares > 1:
        config.hook.pytest_deselected(items=[item for n, item in enumerate(items)
                                             if n % shares != number - 1])  # fmt: skip
        items[:] = items[number - 1 :: shares]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is there for the whole run out of later collections of garbage, and have fewer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return request.config.getoption("--bless")


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the launches that were bound with care: what they were given by name."""
    from workbench.runtime.jit import JITFunction

    told: list[dict[str, Any]] = []
    bind = JITFunction._careful

    def noted(self: Any, grid: Any, args: Any, given: Any) -> Any:
        told.append(given)
        return bind(self, grid, args, given)

    monkeypatch.setattr(JITFunction, "_careful", noted)
    return told
