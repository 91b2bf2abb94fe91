"""`workbench.triton`: the names that pasted code imports are ours, and only those that work."""

from __future__ import annotations

import importlib

import pytest

import workbench.language
import workbench.triton as triton


def test_language_is_the_kernel_language():
    assert triton.language is workbench.language
    assert importlib.import_module("workbench.triton.language") is workbench.language


@pytest.mark.parametrize("name", triton.__all__)
def test_every_name_is_there(name):
    assert hasattr(triton, name)


def test_host_functions():
    assert triton.cdiv(7, 3) == 3
    assert triton.next_power_of_2(781) == 1024
    assert triton.__version__ == "3.6.0"


def test_testing_is_the_runtimes():
    assert callable(triton.testing.do_bench)
    assert callable(triton.testing.perf_report)
