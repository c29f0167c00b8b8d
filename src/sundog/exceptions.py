"""The error tree: every way in which a get, a call or the runtime itself can fail.

Owns: the classes (Ray's names and inheritance), what they say and which facts they carry. What they all share, and the
one that wraps what user code raised, is in `exception_base.py`. Refuses: deciding that something failed; the runtime
does, and passes the evidence here as *facts*. Runs in every process and on every thread, and imports nothing heavy. ::

    RayError                                     facts are attributes; everything pickles
    ├── RayTaskError                             user code raised; also an instance of what it raised
    ├── TaskCancelledError                       cancel()
    ├── RayActorError
    │   ├── ActorDiedError                       permanently
    │   └── ActorUnavailableError                restarting or unreachable; the call may or may not have run
    ├── WorkerCrashedError                       the process died
    ├── OutOfMemoryError                         the memory monitor or the kernel stopped it
    ├── NodeDiedError, LocalRayletDiedError      the machine, or its node process, is gone
    ├── GetTimeoutError (TimeoutError)
    ├── TaskTimeoutError (TimeoutError)          it ran longer than its timeout_s
    ├── TaskQueueTimeoutError (TimeoutError)     it did not start within its queue_timeout_s
    ├── DeadlockError                            a get that would never end: the cycle and its stacks
    ├── ObjectLostError
    │   ├── ObjectFetchTimedOutError, ObjectFreedError, OwnerDiedError
    │   ├── ObjectReconstructionFailedError      and could not be computed again
    │   └── ReferenceCountingAssertionError (AssertionError)
    ├── ObjectStoreFullError, OutOfDiskError
    ├── TaskUnschedulableError, ActorUnschedulableError
    ├── TaskPlacementGroupRemoved, ActorPlacementGroupRemoved
    ├── ActorAlreadyExistsError (ValueError), ActorHandleNotFoundError (ValueError)
    ├── PendingCallsLimitExceeded, AsyncioActorExit, ObjectRefStreamEndOfStreamError
    ├── RuntimeEnvSetupError, AuthenticationError, CrossLanguageError, RpcError
    ├── UserCodeException, UnserializableException, PlasmaObjectNotAvailable
    ├── OufOfBandObjectRefSerializationException     (spelt as Ray spells it)
    └── RaySystemError                           a defect or limit of the runtime
        ├── RayChannelError ── RayChannelTimeoutError (TimeoutError)
        ├── RayCgraphCapacityExceeded, RayDirectTransportError
        └── StreamingGeneratorReplayInconsistentError
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sundog.exception_base import RayError as RayError
from sundog.exception_base import RayTaskError as RayTaskError
from sundog.exception_base import _rebuild_error, _rebuild_task_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sundog.plain import JsonObject

for _each in (RayError, RayTaskError, _rebuild_error, _rebuild_task_error):
    _each.__module__ = __name__  # as users read it, and as pickles name it


class TaskCancelledError(RayError):
    """The task was cancelled. Facts: task_id."""

    default = "The task was cancelled before it finished."
    _ray_order = ("task_id", "message")


class RayActorError(RayError):
    """An actor could not finish a call. Facts: those below, and exit_code, signal, cause."""

    default = "The actor could not finish this call."
    _ray_order: ClassVar[tuple[str, ...]] = ("actor_id", "message", "actor_init_failed", "preempted")
    actor_id: object = None
    actor_name: str | None = None
    class_name: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: object = None
    last_line: str | None = None
    peak_bytes: int | None = None
    actor_init_failed: bool = False
    preempted: bool = False
    may_have_run: bool = True  # False: the call had certainly not begun when the actor died

    @property
    def error_msg(self) -> str:
        """The message, under Ray's name for it."""
        return self.message

    @error_msg.setter
    def error_msg(self, text: str) -> None:
        self.message = text


class ActorDiedError(RayActorError):
    """The actor is permanently dead: every later call raises this too."""

    default = "The actor died and will not be restarted."
    _ray_order = ("cause",)

    @classmethod
    def from_task_error(cls, task_error: RayTaskError, **facts: object) -> ActorDiedError:
        """The death of an actor whose constructor raised `task_error`."""
        message = f"The actor died because its constructor raised:\n{task_error}"
        return cls(message, **{"actor_init_failed": True, "cause": task_error, **facts})

    def _default_message(self, facts: dict[str, object]) -> str:
        if isinstance(cause := facts.get("cause"), RayTaskError):
            facts.setdefault("actor_init_failed", True)
            return f"The actor died because its constructor raised:\n{cause}"
        return super()._default_message(facts)


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now, but may come back; the call may or may not have run."""

    default = "The actor cannot be reached for now; the call may or may not have been executed."
    _ray_order = ("message", "actor_id")

    def __init__(self, *args: object, **facts: object) -> None:
        super().__init__(*args, **facts)
        if isinstance(self.actor_id, bytes):  # as Ray takes it
            self.actor_id = self.actor_id.hex()


class WorkerCrashedError(RayError):
    """The process died while it ran the task. Facts: those below, and pid, task_id, worker_id."""

    default = "The worker process died while it ran this task."
    exit_code: int | None = None
    signal: int | None = None
    function_name: str | None = None
    attempt: int | None = None
    cause: str | None = None  # the whole cause in words
    last_line: str | None = None  # the last line of user code that was sampled
    peak_bytes: int | None = None


class OutOfMemoryError(RayError):
    """The task or actor was stopped because memory ran out; the facts say how much, and why this one.

    A kill by the kernel has the limit of the cgroup and the peak of the process for facts.
    """

    default = "The worker was stopped because the machine ran out of memory."
    function_name: str | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    threshold: float | None = None
    top_users: object = None
    reason: str | None = None
    signal: int | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None


class NodeDiedError(RayError):
    """The node that ran the task is gone. Facts: node_id, task_id, worker_id, pid, function_name, attempt."""

    default = "The node died."


class LocalRayletDiedError(RayError):
    """This machine's node process is gone, and the session with it. Facts: pid, exit_code, signal."""

    default = "The node process of this session died, so the session is over. Call init() to start a new one."
    exit_code: int | None = None
    signal: int | None = None


class GetTimeoutError(RayError, TimeoutError):
    """`get` ran into its timeout. The task continues; ask again, or cancel it. Facts: timeout_s, pending."""

    __slots__ = ()

    default = "get() timed out before every object was ready."
    timeout_s: float | None = None
    pending: object = None


class ObjectLostError(RayError):
    """No copy of the object is left. Facts: object_id (hex), owner_address, call_site."""

    default = "Every copy of the object is lost."
    _ray_order: ClassVar[tuple[str, ...]] = ("object_ref_hex", "owner_address", "call_site")
    object_id: str | None = None
    object_ref_hex: str | None = None
    owner_address: object = None
    call_site: str | None = None


class ObjectFetchTimedOutError(ObjectLostError):
    """The object exists, but did not arrive from the other node in time."""

    default = "The object could not be fetched from the node that holds it in time."


class ObjectFreedError(ObjectLostError):
    """The program itself freed the object, with `sundog.internal.free`. Facts: freed_by, pid, freed_at."""

    default = "The object was freed by the program and cannot be read any more."
    freed_by: str | None = None
    freed_at: str | None = None


class OwnerDiedError(ObjectLostError):
    """The process that created the ref is gone, and what it owned is gone with it."""

    default = "The process that owned the object (it called .remote() or put()) has exited."


class ObjectReconstructionFailedError(ObjectLostError):
    """The object is lost and its task could not be run again. Facts: reason, reason_message."""

    default = "The object is lost and could not be computed again."
    _ray_order = ("object_ref_hex", "reason", "reason_message", "owner_address", "call_site")
    reason: str | None = None
    reason_message: str | None = None


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was freed while a ref to it was still in use: a defect of sundog, please report it."""

    __slots__ = ()

    default = "The object was freed although this ref to it is alive. This is a defect of sundog."


class ObjectStoreFullError(RayError):
    """The object does not fit in shared memory, even after spilling. Facts: size_bytes, limit_bytes."""

    default = "The object store is full. See what holds memory with: sundog.util.state.list_objects()"
    size_bytes: int | None = None
    limit_bytes: int | None = None


class OutOfDiskError(RayError):
    """The disk that objects spill to is full. Facts: path, free_bytes, needed_bytes."""

    default = "The disk that objects are spilled to is full."
    path: str | None = None
    free_bytes: int | None = None
    needed_bytes: int | None = None


class TaskUnschedulableError(RayError):
    """The task can never run where it asked to run."""

    default = "The task cannot be scheduled: no node can ever meet what it asks for."


class ActorUnschedulableError(RayError):
    """The actor can never be placed where it asked to be."""

    default = "The actor cannot be scheduled: no node can ever meet what it asks for."


class TaskPlacementGroupRemoved(RayError):
    """The placement group was removed while the task needed it."""

    default = "The task's placement group was removed."


class ActorPlacementGroupRemoved(RayError):
    """The placement group was removed while the actor lived in it."""

    default = "The actor's placement group was removed."


class ActorAlreadyExistsError(ValueError, RayError):
    """A named actor was created under a name that is taken."""

    __slots__ = ()

    # ValueError comes first, as in Ray, and brings its own constructor: put RayError's back in front.
    __init__ = RayError.__init__
    default = "An actor of this name exists already. Use get_if_exists=True or another name."


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle belongs to a session that is over."""

    __slots__ = ()

    __init__ = RayError.__init__
    default = "This actor handle belongs to another session."
    _asks = False  # `sundog why` has nothing to say about it


class PendingCallsLimitExceeded(RayError):
    """The caller has max_pending_calls calls waiting at this actor already."""

    default = "Too many calls are waiting at this actor (max_pending_calls)."


class AsyncioActorExit(RayError):
    """Raised by exit_actor() inside an asyncio actor, to unwind the method that called it."""

    default = "exit_actor() was called: this actor ends."


class ObjectRefStreamEndOfStreamError(RayError):
    """The generator that produces this stream has ended."""

    default = "The stream has ended."


class RuntimeEnvSetupError(RayError):
    """The environment a task or actor asked for could not be made."""

    default = "The runtime environment could not be set up."

    @property
    def error_message(self) -> str | None:
        """Why, under Ray's name for it; None if nothing was said."""
        return self.message if self.message != self.default else None


class AuthenticationError(RayError):
    """The other side did not prove its identity, or refused us."""

    default = "Authentication failed."


class CrossLanguageError(RayError):
    """An error of a task in another language."""


class RpcError(RayError):
    """A message to another process failed. Facts: rpc_code."""

    default = "A message to another process failed."
    _ray_order = ("message", "rpc_code")
    rpc_code: int | None = None


class UserCodeException(RayError):
    """User code failed outside of a task."""


class UnserializableException(RayError):
    """An exception arrived that cannot be unpickled here; its text is all there is."""

    default = "The task failed with an exception that cannot be unpickled in this process."


class PlasmaObjectNotAvailable(RayError):
    """The object is not in this machine's shared memory."""

    default = "The object is not in local shared memory."


class OufOfBandObjectRefSerializationException(RayError):
    """A ref was pickled outside of sundog's own channels, where it cannot be counted."""

    default = "An ObjectRef was pickled outside of a task, put or return value, where it cannot be counted."


class RaySystemError(RayError):
    """Something inside the runtime went wrong. Facts: traceback_str."""

    default = "The runtime failed."
    _ray_order = ("message", "traceback_str")
    traceback_str: str | None = None

    @property
    def client_exc(self) -> str:
        """The message, under Ray's name for it."""
        return self.message


class RayChannelError(RaySystemError):
    """A channel between two processes broke."""

    default = "A channel between two processes broke."


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel did not answer in time."""

    __slots__ = ()

    default = "A channel between two processes did not answer in time."


class RayCgraphCapacityExceeded(RaySystemError):
    """Too many executions of a compiled graph are in flight."""


class RayDirectTransportError(RaySystemError):
    """A direct transfer between two devices failed."""


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator that was run again yielded another number of items than the first time."""

    default = "The generator was run again and did not yield the same number of items."


class DeadlockError(RayError):
    """A `get` or `wait` can never end: what it waits for waits for it, through tasks, actors or resources.

    Facts: `cycle`, a list with one dict for each wait of the cycle, the one that raises first: `name`, `task_id`
    (None for a driver), `pid`, `verb`, `waits_for`, `why`, `since_s`, `stack` (of file, line, function).
    """

    default = "This wait would never end: it is part of a cycle of waits."
    cycle: Sequence[JsonObject] = ()


class TaskTimeoutError(RayError, TimeoutError):
    """A task or call ran longer than its `timeout_s`. Facts: those below; attempt counts from 1.

    `stack` is where its worker was when the time was over; `goes_on` tells that a call could not be ended and still
    runs in its actor.
    """

    default = "The task ran longer than its timeout_s."
    function_name: str | None = None
    timeout_s: float | None = None
    attempt: int | None = None
    stack: str = ""
    goes_on: bool = False


class TaskQueueTimeoutError(RayError, TimeoutError):
    """A task or call did not start within its `queue_timeout_s`, and will never start. Facts: those below.

    `waited_for` says what kept it; `stack` is where a worker was that had it in its queue, if one had.
    """

    default = "The task did not start within its queue_timeout_s."
    function_name: str | None = None
    queue_timeout_s: float | None = None
    attempt: int | None = None
    waited_for: str = ""
    stack: str = ""


RAY_EXCEPTION_TYPES: list[type[RayError]] = [
    value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, RayError)
]
