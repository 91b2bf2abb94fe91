"""Every name of the Triton that is claimed is here; names.json was read from its wheels."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
from typing import Any

import pytest

import workbench as wb
from tests.language.harness import error_of, from_text
from workbench.language.table import LIBDEVICE, NAMES, ONLY_RAISES
from workbench.source import KernelError, OptionError
from workbench.triton.installing import NAMES as DATA

VERSIONS = json.loads(DATA.read_text())
FIRST = next(iter(VERSIONS))
#: The most names that may do nothing but say what to do.
MOST = 15


def names_of(version: str) -> dict[str, set[str]]:
    """Return the names of each module in a version."""
    found = {module: set(names) for module, names in VERSIONS[FIRST]["names"].items()}
    for later, row in VERSIONS.items():
        if later == FIRST:
            continue
        for module in found:
            found[module] |= set(row["added"].get(module, ()))
            found[module] -= set(row["removed"].get(module, ()))
        if later == version:
            break
    return found if version != FIRST else {m: set(n) for m, n in VERSIONS[FIRST]["names"].items()}


@pytest.fixture
def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_triton")
@pytest.mark.parametrize("version", VERSIONS)
def test_probes_are_answered_as_that_triton_would(version: str):
    every: dict[str, set[str]] = {}
    for each in VERSIONS:
        for module, names in names_of(each).items():
            every.setdefault(module, set()).update(names)
    with wb.as_triton(version=version) as triton:
        assert triton.__version__ == importlib.metadata.version("triton") == version
        for module, names in names_of(version).items():
            found = importlib.import_module(module)
            missing = [name for name in sorted(names) if not hasattr(found, name)]
            assert not missing, (module, missing)
            others = [name for name in sorted(every[module] - names) if hasattr(found, name)]
            assert not others, (module, others)
            for name in names:
                exec(f"from {module} import {name}", {})
    assert wb.tl.__name__ == "workbench.language"
    assert not hasattr(wb.tl, "squeeze")


def test_few_names_only_raise_and_none_that_libraries_use():
    said = f"{len(ONLY_RAISES)} names of Triton only raise: {', '.join(sorted(ONLY_RAISES))}"
    sys.stdout.write(said + "\n")
    assert len(ONLY_RAISES) <= MOST
    used = {name for name, row in NAMES.items() if row.tier <= 2}
    used |= {name for name, tier in LIBDEVICE.items() if tier <= 2}
    assert not used & {name.rpartition(".")[2] for name in ONLY_RAISES}


@pytest.mark.parametrize("name", sorted(ONLY_RAISES))
def test_a_name_that_only_raises_says_what_to_do(name: str):
    import workbench.triton as triton

    found: Any = triton
    for part in name.split(".")[1:]:
        found = getattr(found, {"gsan": "_gsan"}.get(part, part))
    if not callable(found):  # a module: each of its functions
        found = getattr(found, found.__all__[0])
    with pytest.raises(KernelError, match="is not supported") as caught:
        found()
    assert caught.value.hint == ONLY_RAISES[name]


def test_such_a_name_is_an_error_at_its_line_in_a_kernel():
    from workbench.language.table import only_raises

    stand_in = only_raises("triton.language.nothing", "write something else")
    del ONLY_RAISES["triton.language.nothing"]
    kernel = from_text("def k(x):\n    a = 1\n    nothing(a, word=2)\n", nothing=stand_in)
    error = error_of(kernel, x=None)
    assert error.message == "triton.language.nothing is not supported"
    assert error.span is not None
    assert error.span.line == 3
    assert error.hint == "write something else"


@pytest.mark.usefixtures("no_triton")
def test_unknown_versions_and_modules_say_so():
    with pytest.raises(OptionError, match=r"no names are known of Triton '2\.1'"):
        wb.as_triton(version="2.1")
    with pytest.raises(OptionError, match="no names are known"):
        wb.as_triton(version="newest")
    with pytest.raises(OptionError, match=r"version is a text, got 3\.6"):
        wb.as_triton(version=3.6)
    with wb.as_triton():
        with pytest.raises(ModuleNotFoundError, match="Gluon is another language"):
            importlib.import_module("triton.experimental.gluon")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("triton.tools.gsan")
    assert "triton" not in sys.modules
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("triton")


def test_the_profiler_says_once_that_it_records_nothing(monkeypatch: pytest.MonkeyPatch):
    from workbench.triton import profiler

    monkeypatch.setattr(profiler, "_said", [])
    with pytest.warns(UserWarning, match="records nothing"):
        session = profiler.start("name", context="shadow")
    with profiler.scope("part", metrics={"flops": 1}):
        profiler.deactivate(session)
    profiler.finalize()
