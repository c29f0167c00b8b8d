"""Sessions on file systems of their own that are filled up: for the disk, and for shared memory.

::

    harness ──unshare -m, two mounts──► driver ──► node, zygote, workers      seen by none but these
    killers ──a file as large as the rest──► 0 bytes free, for a moment ──unlink──► room again

Owns the mounts and the filling. One of the two is full at a time, and nothing needs the other one then: no error is
true because of it. Where nothing can be mounted such sessions are left out, and the harness says so. A file system that
is larger than ours is never filled.
"""

from __future__ import annotations

import contextlib
import os

from tests.integration import small_disks

DISK, MEMORY = "disk", "memory"
KINDS = (DISK, MEMORY)
_SIZE_BYTES = 128 << 20
_PIECE_BYTES = 4 << 20
_FILLER = "chaos-filler"


def refusal() -> str:
    """Why there can be no such sessions here; "" if there can."""
    return small_disks.refusal()


def enclosed(command: list[str], folder: str) -> tuple[list[str], dict[str, str]]:
    """A command that runs another on small file systems below a folder, and the variables that lead there."""
    places = {name: f"{folder}/small-{name}" for name in KINDS}
    for place in places.values():
        os.makedirs(place, mode=0o700, exist_ok=True)
    steps = [f"mount -t tmpfs -o size={_SIZE_BYTES},mode=0700 tmpfs '{place}'" for place in places.values()]
    script = " && ".join([*steps, 'exec "$@"'])
    environ = {"SUNDOG_temp_dir": places[DISK], "SUNDOG_shm_dir": places[MEMORY]}
    return ["unshare", "-m", "sh", "-c", script, "sh", *command], environ


def fill(folder: str) -> bool:
    """Leave no byte free where a folder is; False if that is no file system of ours."""
    facts = os.statvfs(folder)
    if facts.f_blocks * facts.f_frsize != _SIZE_BYTES:
        return False
    fd = os.open(f"{folder}/{_FILLER}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    piece = _PIECE_BYTES
    try:
        while piece >= 4096:
            try:
                if os.write(fd, bytes(piece)) < piece:
                    piece //= 2
            except OSError:
                piece //= 2
    finally:
        os.close(fd)
    return True


def make_room(folder: str) -> None:
    """Undo `fill`."""
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/{_FILLER}")
