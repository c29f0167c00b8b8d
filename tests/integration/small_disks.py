"""File systems of a few megabytes for tests that fill them, and programs that run on them.

Owns a mount namespace for each program: the mounts are seen by that program and by what it starts, and are gone with
the last of them. Needs root; where the kernel refuses, `needs_mounts` skips the test and says so.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

import sundog

SOURCE = str(Path(sundog.__file__).parents[1])
TIMEOUT_S = 180.0
BTRFS_SIZE = "128M"  # the smallest is 109 MiB

# What every such program may use.
PRELUDE = '''
import os, sys, time
def free_bytes(folder):
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
def fill(folder, keep=0):
    """Leave `keep` bytes free, and no more than a page above."""
    fd = os.open(folder + "/filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while free_bytes(folder) >= keep + 4096:
            os.write(fd, bytes(min(1 << 20, max(4096, free_bytes(folder) - keep))))
    except OSError:
        pass
    finally:
        os.close(fd)
def make_room(folder):
    os.unlink(folder + "/filler")
def until(condition, what):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise SystemExit(f"never: {what}")
'''


@functools.cache
def refusal() -> str:
    """Why no file system can be mounted here; "" if one can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/tmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else tried.stderr.strip() or "mount failed"


def needs_mounts() -> None:
    """Skip the test where nothing can be mounted."""
    if refusal():
        pytest.skip(f"no file system can be mounted here: {refusal()}")


@functools.cache
def no_btrfs() -> str:
    """Why no btrfs can be mounted here; "" if one can."""
    if refusal() or shutil.which("mkfs.btrfs") is None:
        return refusal() or "there is no mkfs.btrfs"
    steps = f"truncate -s {BTRFS_SIZE} $0 && mkfs.btrfs -q $0 && mount -o loop $0 /tmp"
    with tempfile.NamedTemporaryFile() as image:
        tried = subprocess.run(
            ["unshare", "-m", "sh", "-c", steps, image.name], capture_output=True, text=True, check=False
        )
    return "" if tried.returncode == 0 else tried.stderr.strip() or "mount failed"


def needs_btrfs() -> None:
    """Skip the test where no btrfs can be mounted."""
    if no_btrfs():
        pytest.skip(f"no btrfs can be mounted here: {no_btrfs()}")


def run(program: str, mounts: dict[Path | str, str], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with a tmpfs of a size at each of the folders.

    Args:
        program: its code, after `PRELUDE` and `import sundog as ray`.
        mounts: folder -> size, as mount takes it; or the file of a disk that is ready, by its whole path.
    """
    steps = [
        f"mount -o loop '{size}' '{folder}'"
        if size.startswith("/")
        else f"mount -t tmpfs -o size={size} tmpfs '{folder}'"
        for folder, size in mounts.items()
    ]
    code = PRELUDE + "import sundog as ray\n" + textwrap.dedent(program)
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": SOURCE, **environ},
        check=False,
    )


def says_right(output: str) -> bool:
    """Whether a program has printed "right"; lines of its workers may stand before the end of that line."""
    return any(line.startswith("right") for line in output.splitlines())
