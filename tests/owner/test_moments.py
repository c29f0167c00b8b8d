"""Whether a handler of the program may run where a signal found the main thread, by the frames that are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import sundog
from sundog.owner import context, moments
from sundog.worker import executor

PACKAGE = os.path.dirname(sundog.__file__)
TASK = (b"t" * 16, "f", 0, b"o" * 8)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task runs in this process."""
    monkeypatch.setattr(context, "main_task", TASK)


def find(*places: tuple[str, str]) -> tuple[str | None, bool]:
    """What `moments.find` says inside functions of these files and names, outermost first; "" is the user's file."""
    if not places:
        found, idle = moments.find(sys._getframe())
        return (None if found is None else found.f_code.co_name), idle
    (part, name), *inner = places
    inside: dict[str, Any] = {"find": find, "inner": inner}
    source = f"def {name}():\n    return find(*inner)"
    exec(compile(source, f"{PACKAGE}/{part}" if part else "/home/user/program.py", "exec"), inside)
    found_there: tuple[str | None, bool] = inside[name]()
    return found_there


def test_in_the_code_of_the_user_it_runs_at_once() -> None:
    assert find(("", "main"), ("", "compute")) == (None, False)


def test_in_the_middle_of_a_verb_the_verb_ends_first() -> None:
    assert (
        find(("", "main"), ("api.py", "put"), ("owner/core.py", "put"), ("serialize/pack.py", "pack"))[0]
        == "put"
    )


def test_code_of_the_user_that_a_verb_calls_is_part_of_the_verb() -> None:
    assert find(("", "main"), ("api.py", "get"), ("", "__setstate__")) == ("get", False)


def test_in_an_application_of_the_api_it_runs_at_once() -> None:
    assert find(("", "main"), ("util/actor_pool.py", "submit")) == (None, False)


def test_at_the_prompt_of_a_debugger_it_runs_at_once_but_not_while_the_visit_ends() -> None:
    prompt = (("", "main"), ("debugging/remote_pdb.py", "_cmdloop"))
    assert find(*prompt, ("debugging/desk.py", "readline")) == (None, False)
    assert find(*prompt, ("debugging/remote_pdb.py", "default"), ("", "typed")) == (None, False)
    assert find(*prompt, ("debugging/desk.py", "_close"), ("debugging/channel.py", "close"))[0] == "_close"


def test_a_wait_for_an_editor_is_left_at_once_but_what_is_told_of_it_is_told() -> None:
    stop = (("", "main"), ("worker/breakpoints.py", "_hook"), ("worker/breakpoints.py", "stop_in_editor"))
    assert find(*stop, ("debugging/vscode.py", "wait_for_editor"), ("", "wait")) == (None, False)
    assert find(*stop, ("worker/breakpoints.py", "_announce"))[0] == "_announce"


@pytest.mark.usefixtures("running")
def test_in_a_task_that_is_captured_or_profiled_it_runs_at_once_but_not_while_the_capsule_is_written() -> (
    None
):
    run = (("worker/executor.py", "_run_any"), ("worker/inspection.py", "kept_run"))
    profiled = (*run, ("worker/inspection.py", "profiled_run"), ("worker/profiles.py", "call"))
    assert find(*profiled, ("", "compute")) == (None, False)
    assert find(*run, ("worker/inspection.py", "_returned"), ("worker/capsuling.py", "keep")) == (
        "_returned",
        False,
    )
    assert find(*profiled, ("worker/profiles.py", "_enter"), ("worker/profiles.py", "enter"))[0] == "_enter"


def test_in_a_call_of_a_queue_the_call_is_answered_or_withdrawn_first() -> None:
    places = (("", "main"), ("util/queue.py", "get"), ("util/queue.py", "_called"), ("util/queue.py", "_get"))
    assert find(*places) == ("_called", False)


def test_in_a_finaliser_it_waits_for_what_was_interrupted_by_the_finaliser() -> None:
    assert find(("", "main"), ("", "__del__"), ("", "close"))[0] == "__del__"


def test_in_a_handler_that_interrupted_a_verb_it_runs_at_once() -> None:
    assert find(("", "main"), ("api.py", "get"), ("owner/interrupts.py", "_run"), ("", "handler")) == (
        None,
        False,
    )


def test_in_a_verb_that_a_handler_calls_that_verb_ends_first() -> None:
    assert (
        find(("api.py", "get"), ("owner/interrupts.py", "_run"), ("", "handler"), ("api.py", "wait"))[0]
        == "wait"
    )


def test_in_a_worker_between_tasks_it_runs_at_once_and_has_nowhere_to_raise() -> None:
    assert find(("worker/process.py", "run"), ("worker/serving.py", "run")) == (None, True)


def test_in_what_the_loop_of_a_worker_calls_that_ends_first_and_there_is_nowhere_to_raise() -> None:
    assert find(("worker/serving.py", "run"), ("worker/answers.py", "flush")) == ("flush", True)


@pytest.mark.usefixtures("running")
def test_in_the_code_of_a_task_it_runs_at_once() -> None:
    assert find(("worker/serving.py", "run"), ("worker/results.py", "_stream"), ("", "items")) == (
        None,
        False,
    )


@pytest.mark.usefixtures("running")
def test_in_a_verb_of_a_task_the_verb_ends_first_and_the_task_gets_what_is_raised() -> None:
    assert find(("worker/results.py", "_stream"), ("", "items"), ("api.py", "get")) == ("get", False)


def test_before_and_after_the_code_of_a_task_what_runs_it_ends_first() -> None:
    assert find(("worker/results.py", "_stream"), ("worker/answers.py", "reply")) == ("_stream", True)


@pytest.mark.parametrize(("function", "variable"), [("run", "end"), ("_run_any", "end")])
def test_each_function_that_calls_tasks_has_the_variable_that_tells_when_they_returned(
    function: str, variable: str
) -> None:
    code = getattr(executor.Executor, function).__code__
    end = moments._end_of_call(code, variable)
    assert 0 < end < len(code.co_code)
    assert moments._CALLERS["worker/executor.py", function] == variable


def test_every_function_that_is_named_here_exists() -> None:
    def names(code: Any) -> Iterator[str]:
        yield code.co_name
        for each in code.co_consts:
            if hasattr(each, "co_name"):
                yield from names(each)

    listed = [
        *moments._CALLERS,
        *moments._LOOPS,
        *moments._STEPS,
        *moments._STANDS,
        *(("owner/interrupts.py", each) for each in moments._PATCHES),
    ]
    for part, name in [*listed, ("owner/interrupts.py", moments._RUNS_HANDLERS)]:
        with open(os.path.join(PACKAGE, part)) as file:
            found = set(names(compile(file.read(), part, "exec")))
        assert name in found or name.startswith("<"), (part, name)
