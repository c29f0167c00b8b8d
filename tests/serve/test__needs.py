"""What happens before Serve's modules are imported."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.serve import _needs


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """The collector is on before and after each test."""
    gc.enable()
    yield
    gc.enable()


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec

    def without_uvicorn(name: str, package: str | None = None) -> Any:
        return None if name == "uvicorn" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_uvicorn)
    with pytest.raises(ModuleNotFoundError, match=r"needs uvicorn.*pip install 'sundog\[serve\]'"):
        importlib.reload(_needs)


def test_the_collector_rests_until_serve_is_loaded() -> None:
    importlib.reload(_needs)
    assert not gc.isenabled()
    _needs.loaded()
    assert gc.isenabled()


def test_a_collector_that_the_program_turned_off_stays_off() -> None:
    gc.disable()
    importlib.reload(_needs)
    _needs.loaded()
    assert not gc.isenabled()
