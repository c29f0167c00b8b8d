"""`ObjectRef`: the name of a value that may not exist yet.

Owns the class and the two thread-local collectors through which pickling tells the runtime which refs
went into, or came out of, a value. Knows no runtime: the engine of this process plugs itself in as
`hooks`. Runs in any process and thread.

A ref's birth by unpickling and its death are only *appended* to ``hooks.ops`` (ids in a tuple are
births, a bare id is a death). ``__del__`` may run anywhere, even under the runtime's own lock, so it must
not do more; the owner drains the deque later, and always before it releases anything.

Where a ref was made is noted as the code object and the position in it, which costs two attribute loads; it becomes
``file:line in function`` only when it is shown, or when the ref leaves the process (its maker may die).
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeGuard, TypeVar

from sundog.ids import INDEX_BYTES, OBJECT_BYTES, random_id

__tracebackhide__ = True  # pytest folds the frames of this file

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

    from sundog.public_ids import JobID, TaskID

T_co = TypeVar("T_co", covariant=True)  # an object never changes, so refs are covariant


class Hooks(Protocol):
    """What a runtime must offer for refs to work in its process."""

    ops: deque[bytes | tuple[bytes, ...]]

    def future_of(self, oid: bytes) -> concurrent.futures.Future[Any]: ...

    def await_of(self, oid: bytes) -> asyncio.Future[Any]: ...

    def pin_forever(self, oid: bytes) -> None: ...

    def job_id(self) -> bytes: ...


class _NoRuntime:
    """Stands in while no runtime is up: refs may still die, and old ones may be unpickled."""

    def __init__(self) -> None:
        self.ops: deque[bytes | tuple[bytes, ...]] = deque(maxlen=1)

    def future_of(self, oid: bytes) -> concurrent.futures.Future[object]:
        raise RuntimeError(
            f"ObjectRef({oid.hex()}) cannot be awaited: sundog is not running in this process. "
            "Call sundog.init() first; a ref ends with the session that made it."
        )

    def await_of(self, oid: bytes) -> asyncio.Future[object]:
        self.future_of(oid)
        raise AssertionError("unreachable")

    def pin_forever(self, oid: bytes) -> None:
        return None

    def job_id(self) -> bytes:
        return bytes(4)


hooks: Hooks = _NoRuntime()
_note = hooks.ops.append


class _Collectors(threading.local):
    sent: list[bytes] | None = None
    received: list[bytes] | None = None


collectors = _Collectors()


def plug(runtime: Hooks | None) -> None:
    """Make `runtime` the one that this process' refs report to (None: unplug)."""
    global hooks, _note
    hooks = _NoRuntime() if runtime is None else runtime
    _note = hooks.ops.append


_BY_HAND: object = object()
# length of an object id in Ray; such an id names nothing here, but programs create and compare them
RAY_BYTES = 28
NIL = b"\xff" * RAY_BYTES


class Counterparts(type):
    """Of classes whose instances on another engine are of that engine's own class: `isinstance` holds for these too.

    The look itself (`look_for_counterparts`) is there only in a process that is on another engine, for it costs time.
    """

    theirs: tuple[type, ...] = ()


def look_for_counterparts() -> None:
    """From now on, `isinstance` asks the other engine's classes as well."""

    def check(cls: Counterparts, value: object) -> bool:
        return type.__instancecheck__(cls, value) or isinstance(value, cls.theirs)

    Counterparts.__instancecheck__ = check  # type: ignore[method-assign,assignment]


class ObjectRef(Generic[T_co], metaclass=Counterparts):
    """The name of an object: the result of a task or of `put`.

    Pass it to tasks and actors, `get` it, `wait` on it, or ``await`` it. Two refs are equal when they
    name the same object.
    """

    __slots__ = ("__weakref__", "_at", "_code", "_id")

    def __init__(self, oid: bytes, code: object = _BY_HAND, at: int = 0) -> None:
        self._id = oid
        if code is _BY_HAND:
            code = None
            _count_by_hand(self)
        self._code = code  # code object of the caller that made the ref; text if that was in another process
        self._at = at

    def __del__(self) -> None:
        try:
            _note(self._id)
        except AttributeError:  # an exception of a signal's handler ended the constructor before it began
            return

    def __reduce__(self) -> tuple[object, ...]:
        sent = collectors.sent
        if sent is None:
            # Pickled by hand: the lifetime of the bytes is unknown, so the object is kept for ever.
            hooks.pin_forever(self._id)
        else:
            sent.append(self._id)
        code = self._code
        if code is None:
            return (rebuild, (self._id,))
        if type(code) is not str:
            code = self._code = site_of(code, self._at)
        return (rebuild, (self._id, code))

    # ------------------------------------------------------------------ identity
    def binary(self) -> bytes:
        """The id as bytes."""
        return self._id

    def hex(self) -> str:
        """The id in hexadecimal."""
        return self._id.hex()

    def call_site(self) -> str:
        """Where this ref was made, as ``file:line in function``; empty if that is not known."""
        code = self._code
        if code is None:
            return ""
        return code if type(code) is str else site_of(code, self._at)

    def is_nil(self) -> bool:
        """Whether this names nothing."""
        return self._id == NIL

    def task_id(self) -> TaskID:
        """The id of the task that makes this object."""
        from sundog.public_ids import TaskID

        return TaskID(self._id[:-INDEX_BYTES])

    def job_id(self) -> JobID:
        """The id of the job in which this object was made."""
        return self.task_id().job_id()

    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """The ref that names nothing."""
        return ObjectRef(NIL, None)

    @classmethod
    def from_random(cls) -> ObjectRef[Any]:
        """A ref that names no object, and is equal to no other."""
        return ObjectRef(random_id(RAY_BYTES))

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> ObjectRef[Any]:
        """Another ref to the object whose `binary()` this is.

        Raises:
            ValueError: it is not.
        """
        return ObjectRef(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str) -> ObjectRef[Any]:
        """Another ref to the object whose `hex()` this is.

        Raises:
            ValueError: it is not.
        """
        return ObjectRef(bytes.fromhex(hex_id))

    @classmethod
    def size(cls) -> int:
        """Bytes in an id of this kind, as Ray has it; those that are made here are shorter."""
        return RAY_BYTES

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectRef and self._id == other._id

    def __repr__(self) -> str:
        return f"ObjectRef({self._id.hex()})"

    # ------------------------------------------------------------------ waiting
    def future(self) -> concurrent.futures.Future[T_co]:
        """A `concurrent.futures.Future` that gets this object's value or error."""
        return hooks.future_of(self._id)

    def _on_completed(self, py_callback: Callable[[object], object]) -> None:
        """Call it with the value when that is there, or with the error. Libraries for Ray use this name."""

        def done(future: concurrent.futures.Future[T_co]) -> None:
            error = future.exception()
            py_callback(future.result() if error is None else error)

        self.future().add_done_callback(done)

    def as_future(self, _internal: bool = False) -> asyncio.Future[T_co]:
        """An asyncio future of the running loop for this object."""
        return hooks.await_of(self._id)

    def __await__(self) -> Generator[object, None, T_co]:
        return self.as_future().__await__()

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} is not iterable: it names a value that may not exist yet. "
            "Call sundog.get(ref) first, or give the task num_returns=N to get N refs."
        )


ObjectID = ObjectRef  # its older name


def _count_by_hand(ref: ObjectRef[object]) -> None:
    """A program made a ref from the bytes of an id: it counts like one that was unpickled."""
    oid = ref._id
    if type(oid) is not bytes or len(oid) not in (OBJECT_BYTES, RAY_BYTES):
        ref._id = NIL  # deleting a nil ref has no effect
        kind = ValueError if isinstance(oid, bytes) else TypeError
        raise kind(
            f"ObjectRef: an id needs to have length {OBJECT_BYTES}, as binary() gives it, or {RAY_BYTES}, as in Ray, "
            f"but this is {oid!r:.80}."
        )
    _note((oid,))


def rebuild(oid: bytes, site: str | None = None) -> ObjectRef[object]:
    """Unpickle a ref: counts it, and adds it to what this thread collects."""
    _note((oid,))
    received = collectors.received
    if received is not None:
        received.append(oid)
    return ObjectRef(oid, site)


# Call sites that were shown or sent: one text object for each place, so a pickle contains it once.
_sites: dict[tuple[int, int], tuple[object, str]] = {}
_SITES_MAX = 4096


def site_of(code: Any, at: int) -> str:
    """A place in a code object as ``file:line in function``."""
    found = _sites.get((id(code), at))
    if found is None:
        line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
        text = f"{code.co_filename}:{line or code.co_firstlineno} in {code.co_qualname}"
        if len(_sites) >= _SITES_MAX:
            _sites.clear()
        found = _sites[id(code), at] = code, text
    return found[1]


def is_made(value: object) -> TypeGuard[ObjectRef[Any]]:
    """Whether this is a ref whose constructor has ended: the garbage collector knows it before, and another thread, or
    a signal's handler in this one, may look at that moment.
    """
    return type(value) is ObjectRef and hasattr(value, "_at")


def creation_sites(names: Collection[str] | None = None) -> dict[str, str]:
    """Where the refs of this process to some objects (ids in hexadecimal; all by default) were made.

    Looks through everything that the garbage collector knows: for errors and listings, not for every day. Not to be
    called under a lock: what dies meanwhile dies here, and runs its finalisers in this thread.
    """
    sites: dict[str, str] = {}
    for each in gc.get_objects():
        if is_made(each):
            name = each._id.hex()
            if names is None or name in names:
                sites[name] = each.call_site() or sites.get(name, "")
    return {name: site for name, site in sites.items() if site}
