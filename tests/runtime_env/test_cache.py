"""Where packages are kept between sessions: only where nobody else can have put any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import normalize
from sundog.runtime_env.installs import prepare


@pytest.fixture
def session(tmp_path: Path) -> str:
    folder = tmp_path / "home" / "session_1"
    folder.mkdir(parents=True, mode=0o700)
    return str(folder)


def test_packages_are_kept_where_only_this_user_can_have_put_any(session: str) -> None:
    shared = Path(session).parent / "runtime_resources"
    options = {"packages": ["x"]}
    before = os.umask(0)
    try:
        env = normalize({"pip": options}, session_dir=session)
    finally:
        os.umask(before)
    assert env.pip_dir.startswith(f"{shared}/pip/")
    assert [path.stat().st_mode & 0o777 for path in (shared, shared / "pip")] == [0o700, 0o700]
    made = Path(env.pip_dir)
    made.mkdir(mode=0o700)
    (made / ".ready").touch()
    assert not env.needs_prepare
    made.chmod(0o777)
    assert env.needs_prepare, "somebody else may have put a .pth file there"
    made.chmod(0o700)
    (shared / "pip").chmod(0o777)
    assert env.needs_prepare
    again = normalize({"pip": options}, session_dir=session)
    assert again.pip_dir.startswith(f"{session}/") and again.key == env.key
    with pytest.raises(RuntimeEnvSetupError, match="other users can write to it"):
        prepare(env)
    (shared / "pip").chmod(0o700)
    made.rename(made.with_suffix(".moved"))
    made.symlink_to(made.with_suffix(".moved"))
    assert env.needs_prepare, "a link may lead anywhere"
