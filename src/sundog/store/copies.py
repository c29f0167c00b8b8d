"""Copies of objects on nodes that they were not made on.

::

    reader on node B ── no file of that name below B's folder ──► link it from its home A, or from any other node
                        the bytes count on B: credit is asked for as for a new segment

Owns the making and the removal of copies. The owner of an object removes all copies when it frees the object; a node
that is short of room may remove a copy at any time, for its home still has the object (`node/store.py`). When the home
is lost, any other copy serves. Runs in every process, any thread; only sessions with several nodes come here.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from sundog.store import places
from sundog.store.credit import PAGE

if TYPE_CHECKING:
    from sundog.store.segments import Segments

_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK)
_FULL = (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT)


def nearest(segments: Segments, name: str) -> str:
    """The path of this node's copy of an object of another node, made now if need be.

    Where this node's store has no room, the path of another node's copy; a path without a file if there is none.
    """
    mine = f"{segments.shm_root}/{name}"
    home = segments.path(name)
    if os.path.exists(mine):
        return mine
    elsewhere = (f"{root}/{name}" for root in places.other_roots(segments.base_root, segments.shm_root))
    for source in (home, segments.restored_path(name), *elsewhere):
        with contextlib.suppress(FileNotFoundError):
            return _copy(segments, source, mine)
    return home


def _copy(segments: Segments, source: str, mine: str) -> str:
    need = (os.stat(source).st_blocks * 512 + PAGE) & ~PAGE
    if not segments.credit.reserve(need):
        return source
    try:
        _link(source, mine)
    except BaseException as error:
        segments.credit.unwritten(need)
        if isinstance(error, FileExistsError):
            return mine  # another process of this node was faster
        if isinstance(error, OSError) and error.errno in _FULL:
            return source
        raise
    segments.credit.written(need)
    return mine


def _link(source: str, mine: str) -> None:
    try:
        os.link(source, mine)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        # Two file systems: copy the bytes, under a name that no process reads yet.
        import shutil

        partial = f"{mine}.part-{os.getpid()}"
        try:
            shutil.copyfile(source, partial)
            os.link(partial, mine)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)


def bring_here(segments: Segments, name: str) -> bool:
    """Have a copy of an object on this node; whether there is one."""
    if places.tag_of(name) == segments.tag or name.startswith("disk-"):
        return True
    return nearest(segments, name) == f"{segments.shm_root}/{name}"


def is_lost(segments: Segments, name: str) -> bool:
    """Whether the home of an object is gone, and no other node has a copy in memory."""
    home = places.shared_root(segments.base_root, places.tag_of(name))
    if os.path.isdir(home):
        return False  # the object exists, or was spilled by a living node
    roots = (segments.shm_root, *places.other_roots(segments.base_root, segments.shm_root))
    return not any(os.path.exists(f"{root}/{name}") for root in roots)


def remove(segments: Segments, name: str) -> None:
    """The object is free: remove every copy that is not at its home."""
    home = segments.path(name)
    for root in (segments.shm_root, *places.other_roots(segments.base_root, segments.shm_root)):
        path = f"{root}/{name}"
        if path != home:
            with contextlib.suppress(OSError):
                os.unlink(path)
