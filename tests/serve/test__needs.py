"""What happens before Serve's modules are imported."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.serve import _needs


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """The collector is on before and after each test."""
    gc.enable()
    yield
    gc.enable()


@pytest.fixture
def noting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that notes whether the collector was on during its import."""
    (tmp_path / "noting_module.py").write_text("import gc\nCOLLECTED = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "noting_module", raising=False)
    return "noting_module"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec

    def without_uvicorn(name: str, package: str | None = None) -> Any:
        return None if name == "uvicorn" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_uvicorn)
    with pytest.raises(ModuleNotFoundError, match=r"needs uvicorn.*pip install 'sundog\[serve\]'"):
        importlib.reload(_needs)


def test_the_collector_rests_while_a_module_is_loaded(noting: str) -> None:
    assert not _needs.load(noting).COLLECTED
    assert gc.isenabled()


def test_a_collector_that_the_program_turned_off_stays_off(noting: str) -> None:
    gc.disable()
    _needs.load(noting)
    assert not gc.isenabled()


def test_the_collector_is_on_again_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError):
        _needs.load("there_is_no_such_module")
    assert gc.isenabled()
