"""Gets and waits of a driver that are under way, so that `shutdown()` of another thread ends them first.

Ray's own `shutdown()` frees the memory that these threads wait in: they hang for ever then, or the process ends with a
segmentation fault. The awaited tasks end with the job anyway, so they are ended first: tasks are cancelled, actors that
belong to the job are killed. Owns the table of these calls. Runs in drivers: on any thread that gets or waits, and in
the one that shuts down.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from sundog.actor import ActorHandle
from sundog.exceptions import RaySystemError
from sundog.generator import ObjectRefGenerator
from sundog.refs import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

T = TypeVar("T")

SHUT_DOWN = "This session was shut down. Call sundog.init() to start another; old refs are gone."
_WOKEN_S = 20.0  # how long the awaited tasks may take to end
_LOOK_S = 0.01
_PENDING_MAX = 100
_NO_ACTOR = b"\xff" * 12  # part of the id of a task that is not an actor's; the job follows


class Waits:
    """The calls under way in one driver."""

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[int, object]] = {}
        self._is_over = False

    def run(self, verb: Callable[..., T], refs: object, **arguments: object) -> T:
        """Call a verb of Ray's that may wait for these refs.

        Raises:
            RaySystemError: the session was shut down meanwhile.
        """
        row = (threading.get_ident(), refs)
        self._under_way[id(row)] = row
        try:
            if self._is_over:
                raise RaySystemError(SHUT_DOWN)
            found = verb(refs, **arguments)
        except (Exception, SystemExit) as error:  # Ray raises SystemExit in a get that it shuts down
            if self._is_over:
                raise RaySystemError(SHUT_DOWN) from error
            raise
        finally:
            del self._under_way[id(row)]
        if self._is_over:
            raise RaySystemError(SHUT_DOWN)
        return found

    def end(self, ray: ModuleType) -> bool:
        """End the tasks that other threads wait for, until these threads return. Returns whether all did."""
        self._is_over = True
        mine = threading.get_ident()
        ended: set[object] = set()
        until = time.monotonic() + _WOKEN_S
        while True:
            waiting = [refs for thread, refs in list(self._under_way.values()) if thread != mine]
            if not waiting or time.monotonic() > until:
                return not waiting
            for refs in waiting:
                for ref in refs if isinstance(refs, (list, tuple)) else [refs]:
                    if ref not in ended:
                        ended.add(ref)
                        with contextlib.suppress(Exception):  # the task has ended, or cannot be cancelled
                            end_task_of(ray, ref)
            time.sleep(_LOOK_S)


def check_get(refs: object) -> None:
    """Say of what Ray did not get why, in the words of the local engine; nothing if these are refs.

    Raises:
        TypeError: the list has something that is no ref.
        ValueError: it is neither a ref nor a list.
    """
    if isinstance(refs, (list, tuple)):
        for position, ref in enumerate(refs):
            if not isinstance(ref, ObjectRef):
                raise TypeError(
                    f"get() takes a ref or a list of refs, but element {position} of the list is {_kind_of(ref)}."
                ) from None
    elif not isinstance(refs, (ObjectRef, ObjectRefGenerator)):
        raise ValueError(f"get() takes a ref or a list of refs, not {_kind_of(refs)}.") from None


def _kind_of(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, ActorHandle):
        return f"{kind}: call one of its methods with .remote() and get the ref that it returns"
    return kind


def check_wait(refs: Sequence[object], num_returns: int) -> None:
    """Refuse what the local engine refuses of `wait()`, in its words.

    Raises:
        TypeError: the list has something that is no ref.
        ValueError: it has duplicates, or fewer refs than are waited for.
    """
    for ref in refs:
        if not isinstance(ref, (ObjectRef, ObjectRefGenerator)):
            raise TypeError(f"wait() takes refs, but the list has {_kind_of(ref)}.")
    if len(set(refs)) != len(refs):
        raise ValueError("wait() takes each ref once, but the list has duplicates.")
    if num_returns <= 0 or num_returns > len(refs):
        raise ValueError(
            f"num_returns must be from 1 to the number of refs ({len(refs)}), but is {num_returns}."
        )


def late(ray: ModuleType, refs: Any, timeout_s: float | None, error: Exception) -> Exception:
    """Ray's error of a get that gave up, with what is not ready; the error as it is if that cannot be told."""
    wanted = list(refs) if isinstance(refs, (list, tuple)) else [refs]
    try:
        _, pending = ray.wait(
            list(dict.fromkeys(wanted)), num_returns=len(set(wanted)), timeout=0, fetch_local=False
        )
    except Exception:
        return error
    first = (pending or wanted)[0].hex()
    made = type(error)(
        f"get() timed out after {timeout_s} s: {len(pending)} of {len(wanted)} objects were not ready; the first is "
        f"{first}. Why: sundog why {first}"
    )
    vars(made).update(timeout_s=timeout_s, pending=[each.hex() for each in pending[:_PENDING_MAX]])
    return made


def end_task_of(ray: ModuleType, ref: Any) -> None:
    """End what a ref is the result of, unless it outlives the job."""
    ref = getattr(ref, "_generator_ref", ref)
    actor = ref.task_id().actor_id()
    if actor.binary().startswith(_NO_ACTOR):
        ray.cancel(ref, force=True)
        return
    row = import_module("ray._private.state").actors(actor.hex())
    if not row.get("IsDetached"):
        import_module("ray._private.worker").global_worker.core_worker.kill_actor(actor, True)
