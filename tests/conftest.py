"""Options of the test run."""

import gc

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files to what comes out; read the diff"
    )
    parser.addoption(
        "--share", default="1/1", help="run one of so many shares of the tests, e.g. 2/8"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files of slow tests first, so that two processes that take files end together.

    Then keep one share; shares of equal runs have every test once.
    """
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "browser")))}
    items.sort(key=lambda item: item.path not in slow)
    number, shares = map(int, config.getoption("--share").split("/"))
    if shares > 1:
        config.hook.pytest_deselected(items=[item for n, item in enumerate(items)
                                             if n % shares != number - 1])  # fmt: skip
        items[:] = items[number - 1 :: shares]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is there for the whole run out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return request.config.getoption("--bless")
