"""What the zygote loads between forks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sundog.worker.later_imports import LaterImports, import_from, import_wanted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with modules, which is not on the path; they are forgotten after the test."""
    (tmp_path / "wanted_first.py").write_text("SOON = ('wanted_soon',)\nLATER = ('wanted_later',)\n")
    for name in ("wanted_soon", "wanted_later", "wanted_plain"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "wanted_broken.py").write_text("raise OSError\n")
    for name in ("first", "soon", "later", "plain", "broken"):
        monkeypatch.delitem(sys.modules, f"wanted_{name}", raising=False)
        monkeypatch.setitem(sys.modules, f"wanted_{name}", None)  # so that the test's end removes it
        del sys.modules[f"wanted_{name}"]
    return str(tmp_path)


def test_what_a_wanted_module_names_is_loaded_later_and_one_by_one(folder: str) -> None:
    later = import_wanted(["wanted_first", "wanted_plain"], [folder])
    assert "wanted_plain" in sys.modules and "wanted_soon" not in sys.modules
    assert later
    later.load_next()
    assert "wanted_soon" in sys.modules and "wanted_later" not in sys.modules
    later.load_next()
    assert "wanted_later" in sys.modules
    assert not later


def test_what_is_needed_soon_waits_for_a_shorter_silence(folder: str) -> None:
    later = LaterImports(["wanted_soon"], ["wanted_later"], [folder])
    soon_ms = later.quiet_ms()
    later.load_next()
    assert soon_ms < later.quiet_ms()


def test_a_module_that_cannot_be_imported_is_left_to_the_workers(folder: str) -> None:
    later = LaterImports(["wanted_broken", "wanted_missing"], ["wanted_plain"], [folder])
    while later:
        later.load_next()
    assert "wanted_plain" in sys.modules


def test_the_path_is_as_before_after_an_import(folder: str) -> None:
    before = list(sys.path)
    import_from("wanted_plain", [folder])
    import_from("wanted_broken", [folder])
    assert sys.path == before
