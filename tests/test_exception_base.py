"""What every error shares: a message, facts, the command to type next, and a way through pickle."""

from __future__ import annotations

import pickle

import pytest

from sundog.exception_base import RayError, RayTaskError

TASK = "ab" * 16


def test_facts_are_attributes_and_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(RayError("gone", pid=812, signal=9)))
    assert (str(error), error.pid, error.signal) == ("gone", 812, 9)


@pytest.mark.parametrize("word", ["message", "error_message", "error_msg"])
def test_the_message_may_have_rays_names(word: str) -> None:
    assert str(RayError(**{word: "said"})) == "said"


def test_the_command_that_tells_more_is_named_once() -> None:
    assert str(RayError("Gone.", task_id=TASK)) == f"Gone. Why: sundog why {TASK}"
    assert str(RayError("two\nlines", task_id=TASK)) == f"two\nlines\nWhy: sundog why {TASK}"
    assert str(RayError(f"Why: sundog why {TASK}", task_id=TASK)).count("sundog why") == 1
    assert "sundog why" not in str(RayError("no id", task_id="short"))


def test_bytes_hold_an_error_or_are_refused() -> None:
    assert str(RayError.from_bytes(RayError("kept").to_bytes())) == "kept"
    with pytest.raises(TypeError, match="hold a dict"):
        RayError.from_bytes(pickle.dumps({}))


class OddConstructor(RayError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_a_subclass_with_a_constructor_of_its_own_survives_pickling() -> None:
    assert str(pickle.loads(pickle.dumps(OddConstructor(1, 2)))) == "1 and 2"


def failed() -> RayTaskError:
    try:
        raise KeyError("missing")
    except KeyError as error:
        return RayTaskError.from_exception(error, function_name="load", pid=7, task_id=bytes.fromhex(TASK))


def test_an_error_of_user_code_is_of_both_classes_and_has_the_causes_attributes() -> None:
    error = failed().as_instanceof_cause()
    assert isinstance(error, KeyError) and isinstance(error, RayTaskError)
    assert error.cause.args == ("missing",)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, RayTaskError) and isinstance(again, KeyError) and again.function_name == "load"


def test_the_text_is_the_remote_traceback_with_process_and_task() -> None:
    text = str(failed())
    assert text.startswith(f"sundog::load() (pid=7, task={TASK})")
    assert "KeyError: 'missing'" in text and text.endswith(f"Why: sundog why {TASK}")


def test_an_error_that_came_through_another_task_keeps_its_first_cause() -> None:
    try:
        raise failed().as_instanceof_cause()
    except RayTaskError as inner:
        outer = RayTaskError.from_exception(inner, function_name="train")
    assert isinstance(outer.cause, KeyError) and not isinstance(outer.cause, RayTaskError)
    assert str(outer).count("sundog why") <= 1


def test_a_task_that_was_interrupted_counts_as_cancelled() -> None:
    from sundog.exceptions import TaskCancelledError

    error = RayTaskError.from_exception(KeyboardInterrupt(), function_name="f")
    assert isinstance(error.as_instanceof_cause(), TaskCancelledError)


def test_an_attribute_that_neither_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = failed().nothing_like_it
