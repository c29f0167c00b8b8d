"""A folder as a zip file: the same content is the same file, and what is ignored is left out."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from sundog.job_submission.packages import pack


def test_equal_content_gives_an_equal_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "x.py").write_text("1")
        (folder / "big.bin").write_text("2")
    first, body = pack(str(tmp_path / "a"), ["big.bin"])
    assert pack(str(tmp_path / "b"), ["big.bin"]) == (first, body)
    assert first.endswith(".zip")
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == ["inner/x.py"]
    assert pack(str(tmp_path / "a"), [])[0] != first


def test_a_module_is_packed_with_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "mod").mkdir()
    (tmp_path / "mod" / "__init__.py").write_text("")
    _, body = pack(str(tmp_path / "mod"), [], "mod")
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == ["mod/__init__.py"]
