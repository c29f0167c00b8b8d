"""The runner of the real programs (benchmarks/realwork/__main__.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import footprint
from benchmarks.realwork import __main__ as runner


def test_sundog_is_compiled_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []
    monkeypatch.setattr(footprint, "adopt_orphans", lambda: None)

    class Compileall:
        @staticmethod
        def compile_dir(folder: str, quiet: int) -> None:
            done.append(f"compile {Path(folder).name}")

    def measure(options: object) -> dict[str, object]:
        done.append("measure")
        return {}

    monkeypatch.setattr(runner, "compileall", Compileall)
    monkeypatch.setattr(runner, "measure", measure)
    assert runner.main(["--out", str(tmp_path)]) == 0
    assert done == ["compile src", "measure"]
