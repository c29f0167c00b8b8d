"""What a worker sets up for a lease."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sundog.worker import setup


def test_what_a_lease_holds_is_the_same_json_with_and_without_the_library() -> None:
    held = {"CPU": 1.0, "GPU": 0.5}
    assert json.loads(setup.lease_text(held, "ab", {})) == {"resources": held, "pg": "ab", "env": {}}
    odd = {'a "quoted" name': 2.0}
    found = json.loads(setup.lease_text(odd, "", {"env_vars": {"A": "1"}}))
    assert found == {"resources": odd, "pg": "", "env": {"env_vars": {"A": "1"}}}


def test_modules_that_are_preloaded_are_imported_and_a_missing_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sundog_preloaded_here.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[str] = []
    monkeypatch.setattr("sundog.notices.warn", told.append)
    try:
        setup.preload("sundog_is_not_there, sundog_preloaded_here,")
        assert "sundog_preloaded_here" in sys.modules
    finally:
        sys.modules.pop("sundog_preloaded_here", None)
    assert len(told) == 1 and "sundog_is_not_there" in told[0]
