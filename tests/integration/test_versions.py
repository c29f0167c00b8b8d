"""A program of another Python, or of another sundog, is turned away from a session with one sentence."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

import sundog
from sundog.engines import sessions
from sundog.wire import versions
from tests.integration import drivers


@pytest.fixture
def head(leak_check: Path) -> Iterator[sessions.SessionInfo]:
    info = sessions.start_head(num_cpus=1)
    yield info
    sessions.stop_session(info)


def other_python() -> str | None:
    """An interpreter of another minor version that sundog supports, if this machine has one."""
    for minor in (11, 12, 13):
        if minor != sys.version_info[1]:
            pattern = os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python")
            for python in [shutil.which(f"python3.{minor}"), *glob.glob(pattern)]:
                if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
                    return python
    return None


def test_a_program_of_another_python_is_told_both_versions(
    head: sessions.SessionInfo, tmp_path: Path
) -> None:
    python = other_python()
    if python is None:
        pytest.skip("there is no other supported Python on this machine")
    shutil.copytree(Path(cloudpickle.__file__).parent, tmp_path / "cloudpickle")
    program = f"""
import sys
import sundog
try:
    sundog.init(address={head.path!r})
except RuntimeError as error:
    print(sys.version.split()[0], error, sep="|")
print(sundog.is_initialized())
"""
    done = subprocess.run(
        [python, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{drivers.SOURCE}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said, initialized = done.stdout.splitlines()
    theirs, sentence = said.split("|")
    assert f"this program Python {theirs}" in sentence
    assert f"runs Python {sys.version.split()[0]}" in sentence
    assert sys.executable in sentence
    assert initialized == "False"


def test_a_program_of_another_protocol_is_refused_and_the_session_goes_on(
    head: sessions.SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(versions, "PROTOCOL", versions.PROTOCOL + 1)
        with pytest.raises(
            RuntimeError, match=f"this program sundog .* .protocol {versions.PROTOCOL}.: their messages"
        ):
            sundog.init(address=head.path)
    assert not sundog.is_initialized()
    with sundog.init(address=head.path):
        assert sundog.get(sundog.remote(os.getpid).remote(), timeout=120) != os.getpid()
