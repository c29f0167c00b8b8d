"""Functions that captured a large value: they are loaded as others are, and the time is noted."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from sundog.events import NoRing
from sundog.worker import large_code


class FakeRing(NoRing):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, /, **facts: object) -> None:
        self.notes.append((kind, facts))


@pytest.mark.parametrize(("size", "is_noted"), [(1000, False), (1 << 20, True)])
def test_the_time_that_a_large_value_takes_is_noted(size: int, is_noted: bool) -> None:
    ring = FakeRing()
    blob = pickle.dumps(b"x" * size)
    assert large_code.load(blob, "use", ring, pickle.loads) == b"x" * size
    assert bool(ring.notes) == is_noted
    if is_noted:
        [(kind, facts)] = ring.notes
        assert (kind, facts["name"], facts["bytes"]) == ("loaded", "use", len(blob))
        assert facts["seconds"] > 0 and facts["at_s"] > 0
        assert facts["imported"] == 0


def test_modules_that_are_imported_meanwhile_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def importing(blob: bytes) -> str:
        monkeypatch.setitem(sys.modules, "a_module_of_the_function", sys)
        return "loaded"

    ring = FakeRing()
    assert large_code.load(b"x" * (1 << 19), "use", ring, importing) == "loaded"
    assert ring.notes[0][1]["imported"] == 1


def test_what_cannot_be_loaded_is_not_noted() -> None:
    ring = FakeRing()
    with pytest.raises(pickle.UnpicklingError):
        large_code.load(b"x" * (1 << 19), "use", ring, pickle.loads)
    assert ring.notes == []
