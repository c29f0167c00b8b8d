"""Arguments out of a capsule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sundog.capsules import capture, replay
from sundog.capsules.rows import Lent
from sundog.serialize.pack import pack
from tests.capsules.made import HEADER


def test_an_argument_that_is_too_large_is_known_again_or_said_to_be_gone(tmp_path: Path) -> None:
    import numpy as np

    array = np.arange(100_000.0)
    meta, buffers, _ = pack((array,), 1 << 16)
    assert buffers is not None
    (tmp_path / "segment").write_bytes(bytes(buffers[0]))
    location = ("segment", 0, ((0, buffers[0].nbytes),))
    packer = capture.Packer(1000, lambda *_: buffers, str(tmp_path))
    packed = packer.arguments(("obj", b"\1" * 20, meta, location))
    assert packed is not None and isinstance(packed.buffers, Lent) and len(packer.absent) == 1
    args, _ = replay._arguments(packed, (), {})
    assert (args[0] == array).all()
    del args
    (tmp_path / "segment").write_bytes(b"\0" * buffers[0].nbytes)
    with pytest.raises(replay.CannotReplay, match="too large for the capsule, and its object is gone"):
        replay._arguments(packed, (), {})


def test_an_edited_file_is_taken_without_the_program_in_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import math\nSCALE = 3\nTABLE = load()\n"
        "def f(x):\n    return math.floor(x) * SCALE + LIMIT\nprint(f.remote(1))\n"
    )
    names: dict[str, Any] = {"LIMIT": 100}
    exec("def f(x):\n    return LIMIT", names)
    header = HEADER._replace(source=f"{path}:4")
    found = replay._from_file(header, names["f"])
    assert callable(found) and found(2.5) == 106
    path.write_text("def g(): ...\n")
    with pytest.raises(replay.CannotReplay, match="defines no f"):
        replay._from_file(header, names["f"])


def test_an_async_generator_runs_to_its_last_item() -> None:
    async def count(number: int) -> AsyncIterator[int]:
        for each in range(number):
            yield each

    assert replay.Prepared(count, (3,), {}, "").call() == [0, 1, 2]
