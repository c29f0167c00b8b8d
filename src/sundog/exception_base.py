"""What every error shares: a message, facts as attributes, a way through pickle; and the error of user code.

Owns `RayError` and `RayTaskError`, which `exceptions.py` shows to users as its own, with all the classes below them.
Refuses: formatting tracebacks and packing foreign exceptions, which is `exception_transport.py`. Runs in every process
and on every thread.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, ClassVar

from sundog.exception_transport import (
    as_dual,
    bare_instance,
    dumps,
    format_chain,
    hint_at_copy,
    pack,
    portable,
    unpack,
)
from sundog.printable import printable

_PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ASK = "sundog why"
# What `sundog why` can be asked about, the most informative first: the attribute, and the length of the id in
# digits.
_ASKED = (("task_id", 32), ("actor_id", 32), ("object_ref_hex", 40))


class RayError(Exception):
    """Base of everything sundog raises about tasks, actors, objects and itself.

    Args:
        message: what happened, the likely cause, the next command; each class has a default.
        **facts: evidence, kept as attributes and pickled along (`error_message` and `error_msg`, Ray's words,
            count as the message).

    >>> RayError("gone", pid=812, signal=9).signal
    9
    """

    # the same memory layout as Exception: required for a base class of Ray's errors (ray_engine/graft.py)
    __slots__ = ()

    default: ClassVar[str] = ""
    _asks: ClassVar[bool] = True  # its text ends with the `sundog why` command
    # Ray's own positional parameters, for programs (mostly tests) that construct these errors themselves.
    _ray_order: ClassVar[tuple[str, ...]] = ("message",)

    message: str = ""
    task_id: object = None
    node_id: object = None
    worker_id: object = None
    pid: int | None = None

    def __init__(self, *args: object, **facts: object) -> None:
        order = self._ray_order
        if len(args) > 1 and len(order) >= len(args):
            facts = {**dict(zip(order, args, strict=False)), **facts}
            args = ()
        elif len(args) == 1 and not isinstance(args[0], str) and order[0] != "message":
            facts = {order[0]: args[0], **facts}
            args = ()
        for alias in ("message", "error_message", "error_msg"):
            if (text := facts.pop(alias, None)) is not None and not args:
                args = (text,)
        if not args and (text := self._default_message(facts)):
            args = (text,)
        super().__init__(*args)
        self.__dict__.update(facts)
        self.message = str(args[0]) if args else ""

    def _default_message(self, facts: dict[str, object]) -> str:
        shown = ", ".join(
            f"{name}={value}" for name, value in facts.items() if value not in (None, "", False)
        )
        return f"{self.default} ({shown})" if self.default and shown else self.default

    def __str__(self) -> str:
        text = self.message if len(self.args) <= 1 else str(self.args)
        asked = _first_id(self.__dict__) if self._asks and _ASK not in text else ""
        if not asked:
            return text
        gap = " " if text.endswith(".") and "\n" not in text else "\n"
        return f"{text}{gap}Why: {_ASK} {asked}"

    def __reduce__(self) -> tuple[object, ...]:
        # Not the default, which calls the class with `args`: a subclass may have any constructor.
        return _rebuild_error, (type(self), self.args, self.__dict__.copy())

    def to_bytes(self) -> bytes:
        """This error as bytes, for `from_bytes`."""
        return dumps(self)

    @staticmethod
    def from_bytes(data: bytes) -> RayError:
        """The error that `to_bytes` packed."""
        error = pickle.loads(data)
        if not isinstance(error, RayError):
            raise TypeError(f"these bytes hold a {type(error).__name__}, not an error of sundog")
        return error


class RayTaskError(RayError):
    """User code raised inside a task or an actor's method.

    What `get` raises is `as_instanceof_cause()` of this: an instance of this class *and* of the class the
    user raised, so ``except ValueError`` and ``except RayTaskError`` both catch it. ``str()`` is the remote
    traceback; `cause` is the exception itself, and its attributes can be read straight from this error.
    """

    # Read by exception_transport: the text of this error continues the stack that waited for it.
    continues_stack: ClassVar[bool] = True

    function_name: str = ""
    traceback_str: str = ""
    cause: Any = None
    proctitle: str | None = None
    ip: str | None = None
    actor_repr: str | None = None
    actor_id: object = None
    actor_name: str | None = None

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: object = None,
        **facts: object,
    ) -> None:
        # Skips RayError's constructor, which is about messages: the message of this error is its traceback.
        Exception.__init__(self, function_name, traceback_str, cause)
        own = {"function_name": function_name, "traceback_str": traceback_str, "cause": cause}
        own |= {"proctitle": proctitle, "pid": pid, "ip": ip, "actor_repr": actor_repr, "actor_id": actor_id}
        self.__dict__.update(own, **facts)

    @classmethod
    def from_exception(
        cls,
        exc: BaseException,
        *,
        function_name: str,
        pid: int | None = None,
        task_id: object = None,
        skip_frames_of: tuple[str, ...] = (),
        **facts: Any,
    ) -> RayTaskError:
        """Wrap what user code raised, ready to be sent. Never raises, and the result always pickles.

        Args:
            exc: what was raised, with its traceback.
            skip_frames_of: path prefixes whose frames the user need not see, besides sundog's own.

        A `RayTaskError` that arrived from a task further down is not wrapped twice: its cause becomes the
        cause of this error, and its traceback continues this one, as if it all had been one stack.
        """
        hint_at_copy(exc)
        text = format_chain(exc, (_PACKAGE_DIR, *skip_frames_of))
        if isinstance(exc, KeyboardInterrupt):
            # As in Ray: a task that was interrupted, even by itself, counts as cancelled.
            from sundog.exceptions import TaskCancelledError

            exc = TaskCancelledError(f"{function_name} was interrupted while it ran.", task_id=_hex(task_id))
        cause = exc.cause if isinstance(exc, RayTaskError) else portable(exc)
        return cls(function_name, text, cause, pid=pid, task_id=task_id, **facts)

    def as_instanceof_cause(self) -> RayTaskError:
        """This error as an instance of the class of its cause, too.

        Gives back the error itself when the cause's class cannot be inherited from, when that adds nothing,
        and for SystemExit, KeyboardInterrupt, GeneratorExit and asyncio's CancelledError: an error of a
        remote task must not end the driver's interpreter or cancel its coroutines.
        """
        dual: RayTaskError = as_dual(self, RayTaskError)
        return dual

    make_dual_exception_instance = as_instanceof_cause  # Ray's name for it

    def __getattr__(self, name: str) -> Any:
        # Only reached when normal lookup fails. Dunder names are not looked up in the cause: copy and pickle
        # probe for them.
        if name.startswith("__") or (cause := self.__dict__.get("cause")) is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(cause, name)

    def __str__(self) -> str:
        asked = _first_id({"task_id": _hex(self.task_id)})
        return f"{self.remote_text()}\nWhy: {_ASK} {asked}" if asked else self.remote_text()

    def remote_text(self) -> str:
        """Where and how it failed, without what to ask next: an error that passes through several tasks asks once."""
        known = {"pid": self.pid, "ip": self.ip, "task": _hex(self.task_id), "actor": self.actor_name}
        known |= {"actor_id": _hex(self.actor_id), "repr": self.actor_repr}
        facts = ", ".join(
            f"{name}={printable(str(value))}" for name, value in known.items() if value is not None
        )
        lines = self.traceback_str.strip("\n").split("\n")
        if lines[0].startswith("Traceback (most recent call last)"):
            del lines[0]
        return "\n".join(
            [f"sundog::{printable(self.function_name)}()" + (f" ({facts})" if facts else ""), *lines]
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cause!r})"

    def __reduce__(self) -> tuple[object, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "cause"}
        is_dual = "_dual_of" in type(self).__dict__
        if is_dual:
            # The attributes of the cause are pickled with the cause. A pid or task id of this error differs
            # from the cause's.
            inherited = vars(self.cause)
            state = {
                n: v
                for n, v in state.items()
                if n in RayTaskError.__annotations__ or n not in inherited or inherited[n] is not v
            }
        plain = RayTaskError if is_dual else type(self)
        return _rebuild_task_error, (plain, pack(self.cause), state, is_dual)


def _rebuild_error(cls: type[RayError], args: tuple[object, ...], state: dict[str, object]) -> RayError:
    error: RayError = bare_instance(cls, RayError())
    error.args = args
    error.__dict__.update(state)
    return error


def _rebuild_task_error(
    cls: type[RayTaskError], packed: dict[str, object], state: dict[str, object], dual: bool
) -> RayTaskError:
    error: RayTaskError = bare_instance(cls, RayError())
    cause = unpack(packed)
    error.__dict__.update(state, cause=cause)
    error.args = (error.function_name, error.traceback_str, cause)
    return error.as_instanceof_cause() if dual else error


def _hex(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _first_id(facts: dict[str, object]) -> str:
    """The id that `sundog why` can be asked about; "" if an error is about nothing that has one."""
    for name, digits in _ASKED:
        value = facts.get(name)
        if type(value) is str and len(value) == digits:
            return value
    return ""
