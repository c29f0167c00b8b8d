"""Arguments out of a capsule."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.capsules import capture, replay
from sundog.capsules.rows import Lent
from sundog.serialize.pack import pack


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
