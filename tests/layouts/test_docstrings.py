import doctest
import importlib
import pkgutil

import pytest

import workbench.layouts

MODULES = [module.name for module in pkgutil.iter_modules(workbench.layouts.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    results = doctest.testmod(importlib.import_module(f"workbench.layouts.{name}"))
    assert results.failed == 0
