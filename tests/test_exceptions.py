"""The error tree, its text, and the way of any exception through pickle."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pickle
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import cloudpickle
import pytest

from sundog import exceptions
from sundog.exceptions import (
    ActorUnavailableError,
    RayError,
    RaySystemError,
    RayTaskError,
    RuntimeEnvSetupError,
    TaskCancelledError,
)

SYSTEM_ERRORS = [cls for cls in exceptions.RAY_EXCEPTION_TYPES if cls is not RayTaskError]


class Picky(Exception):
    """Cannot be unpickled: its constructor does not take what it passes on as args."""

    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"{code}: {hint}")
        self.code = code
        self.hint = hint

    def shout(self) -> str:
        return self.hint.upper()


class Locked(ValueError):
    """Cannot be pickled: it holds a lock."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()
        self.size = 7


class Status(Exception):
    """An instance attribute hides a class attribute of the same name."""

    status = 500

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Sealed(Exception):
    """Refuses to be inherited from."""

    def __init_subclass__(cls) -> None:
        raise TypeError("sealed")


class Mute(Exception):
    """Fails to say what happened."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Slotted(Exception):
    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(where)


class PathError(OSError):
    """Keeps its facts in C fields, and cannot be unpickled."""

    def __init__(self, path: str, *, code: int) -> None:
        super().__init__(code, "no way", path)


def raised(action: Callable[[], object], **facts: Any) -> RayTaskError:
    """What a worker makes of the exception that `action` raises."""
    try:
        action()
    except BaseException as exc:
        return RayTaskError.from_exception(
            exc, **{"function_name": "work", "pid": 12, "task_id": b"\x01", **facts}
        )
    raise AssertionError("nothing was raised")


def throw(exc: BaseException) -> NoReturn:
    raise exc


def sent(error: RayTaskError) -> Any:
    """What `get` raises for it in another process."""
    back: RayTaskError = pickle.loads(cloudpickle.dumps(error))
    return back.as_instanceof_cause()


def arrived(exc: BaseException) -> Any:
    return sent(raised(lambda: throw(exc)))


# ---------------------------------------------------------------------- system errors


@pytest.mark.parametrize("cls", SYSTEM_ERRORS)
def test_a_system_error_keeps_its_message_and_facts_through_pickle(cls: type[RayError]) -> None:
    error = cls("what happened", pid=5, anything=[1, 2])
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.message, back.pid, back.anything) == ("what happened", "what happened", 5, [1, 2])
    assert type(back) is cls


@pytest.mark.parametrize("cls", SYSTEM_ERRORS)
def test_a_system_error_can_be_made_without_arguments(cls: type[RayError]) -> None:
    assert str(cls()) == cls.default
    assert str(pickle.loads(pickle.dumps(cls()))) == cls.default


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("ActorDiedError", (exceptions.RayActorError,)),
        ("ActorUnavailableError", (exceptions.RayActorError,)),
        ("GetTimeoutError", (TimeoutError,)),
        ("OwnerDiedError", (exceptions.ObjectLostError,)),
        ("ObjectReconstructionFailedError", (exceptions.ObjectLostError,)),
        ("ReferenceCountingAssertionError", (exceptions.ObjectLostError, AssertionError)),
        ("ActorAlreadyExistsError", (ValueError,)),
        ("ActorHandleNotFoundError", (ValueError,)),
        ("RayChannelTimeoutError", (exceptions.RayChannelError, exceptions.RaySystemError, TimeoutError)),
    ],
)
def test_the_tree_has_the_branches_that_programs_catch(name: str, bases: tuple[type, ...]) -> None:
    cls = getattr(exceptions, name)
    assert issubclass(cls, RayError)
    assert all(issubclass(cls, base) for base in bases)


def test_the_tree_in_the_docstring_names_every_class() -> None:
    for cls in exceptions.RAY_EXCEPTION_TYPES:
        assert cls.__name__ in (exceptions.__doc__ or "")


def test_well_known_facts_default_to_none() -> None:
    error = exceptions.ActorDiedError("gone")
    assert (error.actor_id, error.exit_code, error.signal, error.cause) == (None, None, None, None)
    assert not error.actor_init_failed


def test_facts_stand_in_the_default_message() -> None:
    assert "signal=9" in str(exceptions.WorkerCrashedError(signal=9, exit_code=None))
    assert "exit_code" not in str(exceptions.WorkerCrashedError(signal=9, exit_code=None))


def test_the_positional_arguments_of_ray_are_understood() -> None:
    assert exceptions.RayActorError("ab12", "text").actor_id == "ab12"
    assert exceptions.RayActorError(actor_id="ab12", error_msg="text").error_msg == "text"
    assert exceptions.ActorUnavailableError("text", b"id").actor_id == b"id".hex()
    assert exceptions.ObjectLostError("ab12", None, "here").call_site == "here"
    assert exceptions.TaskCancelledError(error_message="text").message == "text"
    assert exceptions.RpcError("text", 4).rpc_code == 4


def test_messages_and_ids_can_be_read_by_the_names_of_ray() -> None:
    assert RuntimeEnvSetupError("no pip").error_message == "no pip"
    assert RuntimeEnvSetupError(error_message="no pip").error_message == "no pip"
    assert RuntimeEnvSetupError().error_message is None
    assert RaySystemError("lost").client_exc == "lost"
    unavailable = ActorUnavailableError("restarting", b"\x01" * 16)
    assert (unavailable.actor_id, unavailable.error_msg) == ("01" * 16, "restarting")
    assert pickle.loads(pickle.dumps(unavailable)).actor_id == "01" * 16


def test_a_subclass_with_its_own_constructor_still_pickles() -> None:
    back = pickle.loads(pickle.dumps(Tailored(1, 2)))
    assert (str(back), back.total) == ("1+2", 3)


class Tailored(RayError):
    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left}+{right}")
        self.total = left + right


def test_an_actor_whose_constructor_raised_carries_that_error() -> None:
    cause = raised(lambda: throw(ValueError("bad start")))
    error = pickle.loads(pickle.dumps(exceptions.ActorDiedError.from_task_error(cause, actor_id="ab")))
    assert error.actor_init_failed
    assert error.actor_id == "ab"
    assert isinstance(error.cause, RayTaskError)
    assert "ValueError: bad start" in str(error)
    assert exceptions.ActorDiedError(cause).actor_init_failed


def test_an_error_survives_to_bytes_and_back() -> None:
    assert RayError.from_bytes(exceptions.NodeDiedError("n", node_id="x").to_bytes()).node_id == "x"
    with pytest.raises(TypeError, match="int"):
        RayError.from_bytes(pickle.dumps(3))


def test_importing_the_errors_imports_nothing_heavy() -> None:
    code = "import sys, sundog.exceptions; print(*{'cloudpickle', 'numpy', 'asyncio'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# ---------------------------------------------------------------------- what user code raised


def test_a_task_error_is_caught_as_what_was_raised_and_as_a_task_error() -> None:
    error = arrived(ValueError("bad"))
    assert isinstance(error, RayTaskError)
    assert isinstance(error, ValueError)
    assert type(error).__name__ == "RayTaskError(ValueError)"
    assert type(error.cause) is ValueError
    assert error.args == (error.cause,)


def test_the_text_names_the_task_and_shows_the_users_frames() -> None:
    text = str(arrived(ValueError("bad")))
    assert text.startswith("sundog::work() (pid=12, task=01)\n")
    assert "throw\n    raise exc" in text
    assert text.endswith("ValueError: bad")
    assert "Traceback (most recent call last)" not in text


def test_frames_below_a_hidden_path_are_left_out() -> None:
    def outside() -> None:
        exec(compile("def run():\n    raise KeyError('k')\nrun()", "/hidden/place/inner.py", "exec"), {})

    frame = 'File "/hidden/place/inner.py", line 2, in run'
    assert frame in str(raised(outside))
    assert frame not in str(raised(outside, skip_frames_of=("/hidden/place/",)))


def test_frames_are_all_shown_when_every_one_of_them_is_hidden() -> None:
    assert "throw" in str(raised(lambda: throw(ValueError()), skip_frames_of=("/",)))


def test_causes_and_contexts_are_told_in_order() -> None:
    def chained() -> None:
        try:
            try:
                throw(KeyError("first"))
            except KeyError:
                throw(OSError("second"))
        except OSError as exc:
            raise ValueError("third") from exc

    text = str(sent(raised(chained)))
    assert text.index("first") < text.index("second") < text.index("ValueError: third")
    assert "During handling" in text
    assert "direct cause" in text


def test_an_endless_chain_is_cut_and_a_cycle_is_no_trap() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert str(raised(lambda: throw(first))).splitlines().count("ValueError: second") == 1
    last = ValueError(0)
    for number in range(1, 100):
        earlier, last = last, ValueError(number)
        last.__cause__ = earlier
    assert "earlier exceptions left out" in str(raised(lambda: throw(last)))


def test_an_error_through_nested_tasks_is_one_stack_without_repetition() -> None:
    inner = raised(lambda: throw(ValueError("deep")), function_name="leaf").as_instanceof_cause()
    middle = sent(raised(lambda: throw(inner), function_name="branch"))
    outer = sent(raised(lambda: throw(middle), function_name="root"))
    text = str(outer)
    assert text.index("sundog::root()") < text.index("sundog::branch()") < text.index("sundog::leaf()")
    assert text.count("ValueError: deep") == 1
    assert type(outer).__name__ == "RayTaskError(ValueError)"
    assert type(outer.cause) is ValueError


def test_attributes_of_the_cause_can_be_read_from_the_error() -> None:
    error = arrived(Status(404))
    assert error.status == 404
    assert arrived(Slotted("here")).where == "here"
    with pytest.raises(AttributeError, match="nothing"):
        _ = error.nothing


def test_fields_that_builtin_exceptions_keep_in_c_are_there() -> None:
    error = arrived(FileNotFoundError(2, "nope", "/x"))
    assert (error.errno, error.strerror, error.filename) == (2, "nope", "/x")
    assert arrived(StopIteration(4)).value == 4
    assert arrived(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")).encoding == "utf-8"


def test_the_error_that_get_raised_can_be_pickled_itself() -> None:
    error = pickle.loads(pickle.dumps(arrived(Status(404))))
    assert isinstance(error, Status)
    assert isinstance(error, RayTaskError)
    assert (error.status, error.pid) == (404, 12)


def test_an_exception_with_an_odd_constructor_arrives_with_its_attributes() -> None:
    error = arrived(Picky(7, hint="turn it off"))
    assert (error.code, error.hint, error.shout()) == (7, "turn it off", "TURN IT OFF")
    assert str(error.cause) == "7: turn it off"
    assert str(error).endswith("Picky: 7: turn it off")
    assert isinstance(error, Picky)


def test_an_exception_that_cannot_be_pickled_arrives_without_what_cannot() -> None:
    error = arrived(Locked("shut"))
    assert error.size == 7
    assert "lock" in error.lock
    assert repr(error.cause) == repr(Locked("shut"))
    assert isinstance(error, Locked)
    assert isinstance(error, RayTaskError)


def test_a_stand_in_keeps_the_fields_kept_in_c() -> None:
    error = arrived(PathError("/x", code=13))
    assert isinstance(error, PathError)
    assert (error.errno, error.filename) == (13, "/x")


def test_a_stand_in_can_be_raised_again_and_sent_on() -> None:
    error = arrived(Locked("shut"))
    again = arrived(error.cause)
    assert str(again.cause) == "shut"
    assert isinstance(again, Locked)
    assert isinstance(pickle.loads(pickle.dumps(again)), Locked)


def test_an_exception_whose_class_is_missing_here_arrives_as_its_nearest_base(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("sundog_test_elsewhere")
    exec("class Far(KeyError):\n    pass", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    data = cloudpickle.dumps(raised(lambda: throw(module.Far("away"))))
    monkeypatch.delitem(sys.modules, module.__name__)
    error = pickle.loads(data).as_instanceof_cause()
    assert type(error).__name__ == "RayTaskError(Far)"
    assert error.cause.args == ("away",)
    assert isinstance(error, KeyError)


def test_an_exception_that_cannot_even_be_printed_arrives() -> None:
    error = arrived(Mute())
    assert isinstance(error, Mute)
    assert "Mute" in str(error)


def test_a_class_that_refuses_inheritance_arrives_as_a_plain_task_error() -> None:
    error = arrived(Sealed("x"))
    assert type(error) is RayTaskError
    assert type(error.cause) is Sealed


@pytest.mark.parametrize("cause", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_an_exception_that_steers_the_interpreter_stays_inside(cause: BaseException) -> None:
    error = arrived(cause)
    assert type(error) is RayTaskError
    assert type(error.cause) is type(cause)


def test_an_interrupt_arrives_as_a_cancelled_task() -> None:
    error = arrived(KeyboardInterrupt())
    assert isinstance(error, TaskCancelledError) and isinstance(error, RayTaskError)
    assert not isinstance(error, KeyboardInterrupt)


def test_any_other_base_exception_can_be_caught_as_an_exception_too() -> None:
    error = arrived(Stop("now"))
    assert isinstance(error, Stop)
    assert isinstance(error, Exception)


class Stop(BaseException):
    pass


def test_a_group_arrives_with_its_members_even_odd_ones() -> None:
    error = arrived(ExceptionGroup("both", [ValueError(1), Picky(2, hint="h")]))
    matched, rest = error.split(Picky)
    assert matched.exceptions[0].code == 2
    assert type(rest.exceptions[0]) is ValueError
    assert "ValueError: 1" in str(error)
    assert isinstance(error, ExceptionGroup)


def test_a_system_error_inside_a_task_is_caught_as_itself() -> None:
    error = arrived(exceptions.GetTimeoutError("late", timeout_s=3))
    assert isinstance(error, exceptions.GetTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.timeout_s == 3


def test_a_plain_exception_adds_no_second_class() -> None:
    error = raised(lambda: throw(Exception("plain")))
    assert error.as_instanceof_cause() is error


def test_a_large_value_in_an_exception_travels_once() -> None:
    size = 1 << 20
    for payload in (bytes(size), bytearray(size), "x" * size):
        cause = Status(404)
        cause.payload = payload  # type: ignore[attr-defined]
        error = raised(lambda cause=cause: throw(cause))  # type: ignore[misc]
        assert len(cloudpickle.dumps(error)) < 1.5 * size
        assert sent(error).payload == payload


def test_an_exception_that_prints_all_its_data_has_its_text_cut_in_the_middle() -> None:
    text = str(arrived(ValueError("begin" + "x" * 1_000_000 + "end")))
    assert len(text) < 300_000
    assert "characters left out" in text
    assert text.endswith("xend")


# ---------------------------------------------------------------------- exceptions that resist


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Sets no attribute, not even its traceback."""

    code: int


@dataclasses.dataclass
class Comparable(Exception):
    """Has no hash."""

    code: int


class Hidden(Exception):
    """Hides its arguments, and computes its message."""

    @property
    def args(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("hidden")

    @property
    def message(self) -> str:
        return "computed"


class Quits(Exception):
    """Ends the interpreter when it is pickled or printed."""

    def __reduce__(self) -> NoReturn:
        raise SystemExit(3)

    __str__ = __reduce__


class Curious(Exception):
    """Fails whoever asks for what it has not, the interpreter included."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(name)


@pytest.mark.parametrize("cls", [Frozen, Comparable, Hidden, Quits, Curious])
def test_an_exception_that_resists_arrives_as_its_class_and_can_be_raised(cls: type[Any]) -> None:
    exc = cls(3)

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        yield

    with pytest.raises(cls) as caught, block():
        throw(arrived(exc))
    assert isinstance(caught.value, RayTaskError)
    assert hash(caught.value) is not None
    assert "in throw" in str(caught.value)
    assert f"{cls.__name__}: " in str(caught.value)


def test_a_computed_message_is_not_hidden_by_ours() -> None:
    assert arrived(Hidden("x")).message == "computed"


def test_notes_are_told_once() -> None:
    exc = ValueError("v")
    exc.add_note("look here")
    error = arrived(exc)
    assert "".join(traceback.format_exception(error)).count("look here") == 1
    assert error.cause.__notes__ == ["look here"]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (
            exceptions.TaskCancelledError("It was cancelled.", task_id="ab" * 16),
            ". Why: sundog why " + "ab" * 16,
        ),
        (
            exceptions.ObjectLostError("Two\nlines.", object_ref_hex="cd" * 20),
            "\nWhy: sundog why " + "cd" * 20,
        ),
        (exceptions.ObjectLostError("See: sundog why x", object_ref_hex="cd" * 20), "See: sundog why x"),
        (exceptions.TaskCancelledError("It was cancelled.", task_id="an id of Ray"), "It was cancelled."),
        (exceptions.ActorHandleNotFoundError("None.", actor_id="ab" * 16), "None."),
    ],
)
def test_an_error_that_is_about_something_names_the_command_that_tells_more(
    error: Exception, end: str
) -> None:
    assert str(error).endswith(end)
    assert str(error).count("sundog why") <= 1


def test_an_error_that_passes_through_several_tasks_asks_once() -> None:
    inner = exceptions.RayTaskError.from_exception(ValueError("no"), function_name="leaf", task_id="aa" * 16)
    outer = exceptions.RayTaskError.from_exception(inner, function_name="root", task_id="bb" * 16)
    assert str(inner).endswith("ValueError: no\nWhy: sundog why " + "aa" * 16)
    assert str(outer).endswith("ValueError: no\nWhy: sundog why " + "bb" * 16)
    assert str(outer).count("Why: sundog") == 1
