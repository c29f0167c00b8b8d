"""`free`: remove objects now, although refs to them are left.

Owns the one function, under the name that earlier releases of Ray have for it (`ray.internal.free`). Refuses what is
not a ref. Runs in drivers and workers, on any thread; what follows from a call is `owner/frees.py`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sundog import engines
from sundog.api import engine_of_session
from sundog.refs import ObjectRef, site_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__tracebackhide__ = True  # pytest folds the frames of this file

__all__ = ["free"]


def free(object_refs: Sequence[ObjectRef[object]] | ObjectRef[object], local_only: bool = False) -> None:
    """Remove objects from memory and disk at once, although refs to them are left.

    Every process that reads one of them from now on gets `ObjectFreedError`; the object is not computed again. Values
    that were read before stay right, and keep their memory until they are gone. A task that has not finished continues;
    what it returns is dropped. Most programs need none of this: an object goes by itself with the last ref to it.

    Args:
        object_refs: a list of refs, or one ref. What was freed already stays so.
        local_only: frees no other machine's copies, in Ray; a session is one machine, so it makes no difference.

    Raises:
        TypeError: not refs.
        RaySystemError: no session is running in this process.
    """
    if isinstance(object_refs, ObjectRef):
        object_refs = [object_refs]
    if not isinstance(object_refs, list):
        raise TypeError(f"free() takes a list of refs, not {type(object_refs).__name__}.")
    if engines.foreign is not None:
        return engines.foreign.free(object_refs, local_only)
    for ref in object_refs:
        if type(ref) is not ObjectRef:
            raise TypeError(f"free() takes a list of refs, but {ref!r:.200} in it is {type(ref).__name__}.")
    owner = (engines.current() or engine_of_session()).owner
    caller = sys._getframe(1)
    site = site_of(caller.f_code, caller.f_lasti)
    owner.frees.free([ref.binary() for ref in object_refs], (owner.me.hex(), os.getpid(), site))
