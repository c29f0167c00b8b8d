"""Which Ray is accepted, and what is said of others."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sundog.ray_engine import versions


def test_a_ray_of_another_release_is_refused_with_both_numbers() -> None:
    with pytest.raises(ImportError, match=r"works with Ray 2\.60, and this Python has Ray 2\.9\.3"):
        versions.check_release("2.9.3")


def test_a_python_without_ray_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ImportError, match=r"needs Ray, and .* has none .* pip install 'ray\[default\]==2\.60"
    ):
        versions.import_ray()


def test_a_ray_that_is_sundog_is_told_how_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("sundog"))
    with pytest.raises(ImportError, match=r"sundog run --engine ray script\.py"):
        versions.import_ray()


def test_another_python_on_the_cluster_is_one_sentence_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = ModuleType("ray")
    ray.__version__ = "2.60.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    told = versions.explain(RuntimeError("Version mismatch: Python: 3.12.1"), "host:6379")
    assert "the same Ray and the same Python" in str(told) and "3.12.1" in str(told)


def test_an_error_of_unknown_cause_stays_as_it_is() -> None:
    error = RuntimeError("disk full")
    assert versions.explain(error, None) is error
