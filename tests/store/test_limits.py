"""How large the store is by default."""

from __future__ import annotations

import os
from pathlib import Path

from sundog.config import Config
from sundog.store import limits


def test_the_store_takes_its_share_but_no_more_than_shared_memory_holds(tmp_path: Path) -> None:
    assert limits.store_bytes(1000, Config(shm_dir=str(tmp_path))) == 300
    found = os.statvfs(tmp_path)
    most = found.f_blocks * found.f_frsize
    assert limits.store_bytes(1 << 62, Config(shm_dir=str(tmp_path))) == int(most * 0.95)
