"""Handlers of signals may call every verb and may raise, wherever the main thread is. Real timers, real drivers."""

from __future__ import annotations

import ast
import signal
import subprocess
from typing import Any

import pytest

from tests.integration import storms
from tests.integration.programs_of_drivers import driver, expect


def counted(program: subprocess.Popen[str]) -> dict[str, Any]:
    """What a program under a storm has counted; it must have got through it."""
    assert program.stdout is not None
    line = program.stdout.readline()
    if not line:
        pytest.fail(program.communicate()[1])
    expect(program, "done")
    found: dict[str, Any] = ast.literal_eval(line)
    return found


def play(body: str, *said: str) -> None:
    """Run a driver and hear it say these lines, in this order."""
    with driver(body) as program:
        for line in said:
            expect(program, line)


@pytest.mark.parametrize("mode", ["calls", "raises"])
@pytest.mark.parametrize("where", ["main", "main_of_worker"])
def test_verbs_survive_thousands_of_signals_whose_handlers_call_verbs_or_raise(where: str, mode: str) -> None:
    with driver(f"from tests.integration import storms; storms.{where}({mode!r})") as program:
        found = counted(program)
    signals, verbs, raised = found.pop("signals"), found.pop("verbs"), found.pop("raised")
    assert signals > storms.SIGNALS / 10, "each signal sets the timer of the next, so one was lost"
    assert verbs
    assert (raised > 0) == (mode == "raises")
    assert found == {"tracing": False}, f"left over after {signals} of {storms.SIGNALS} signals"


def test_a_handler_may_call_verbs_though_another_trace_function_is_set() -> None:
    body = """
    from tests.integration import storms
    storms.SIGNALS = 300
    def nothing(frame, event, value):
        return None
    sys.settrace(nothing)
    storms.main("calls")
    """
    with driver(body) as program:
        found = counted(program)
    assert found.pop("signals") and found.pop("verbs")
    assert found == {"raised": 0, "tracing": True}


@pytest.mark.parametrize(
    "blocking", ["sundog.get(ref)", "sundog.get([ref], timeout=60)", "sundog.wait([ref])"]
)
def test_a_handler_gets_a_result_while_the_main_thread_waits_for_another(blocking: str) -> None:
    body = f"""
    import signal
    sundog.init(num_cpus=2)
    sundog.get(six.remote())
    def handler(number, frame):
        say("handler", sundog.get(six.remote()), sundog.get(sundog.put(7)))
    signal.signal(signal.SIGUSR1, handler)
    ref = sleep.remote(1.5)
    say("ready")
    {blocking}
    say("woken")
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        program.send_signal(signal.SIGUSR1)
        expect(program, "handler 6 7")
        expect(program, "woken")
        expect(program, "usable")


@pytest.mark.parametrize(
    "blocking", ["sundog.get(ref)", "sundog.get([six.remote(), ref])", "sundog.wait([ref])", "next(items)"]
)
def test_an_alarm_ends_a_blocked_verb_hundreds_of_times(blocking: str) -> None:
    body = f"""
    import signal
    sundog.init(num_cpus=3)
    @sundog.remote
    def late():
        time.sleep(60)
        yield 1
    def handler(number, frame):
        raise TimeoutError
    signal.signal(signal.SIGALRM, handler)
    ref, items = sleep.remote(60), late.remote()
    sundog.get(six.remote())
    for _ in range(200):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            {blocking}
            say("not interrupted")
        except TimeoutError:
            pass
    from sundog import engines
    say(len(engines.current().owner.waiters))
    sundog.cancel(ref, force=True)
    finish()
    """
    play(body, "0", "usable")


IN_THE_MIDDLE = """
    import os, signal
    from sundog import engines
    sundog.init(num_cpus=2)
    owner = engines.current().owner.objects
    drain = owner.drain
    def interrupted_in_the_middle():
        owner.drain = drain
        os.kill(os.getpid(), signal.SIGUSR1)
        say("not torn")
        drain()
"""


@pytest.mark.parametrize("verb", ["return sundog.put([kept])", "sundog.put([kept])", "same.remote(kept)"])
def test_what_a_handler_raises_in_the_middle_of_a_verb_comes_out_of_that_verb(verb: str) -> None:
    body = (
        IN_THE_MIDDLE
        + f"""
    kept = sundog.put(1)
    @sundog.remote
    def same(value):
        return value
    sundog.get(same.remote(1))
    def handler(number, frame):
        raise TimeoutError(frame.f_code.co_name)
    signal.signal(signal.SIGUSR1, handler)
    def interrupted():
        try:
            {verb}
            say("missed")
        except TimeoutError as error:
            say("raised in", error)
    owner.drain = interrupted_in_the_middle
    interrupted()
    say(sys.gettrace())
    finish()
    """
    )
    play(body, "not torn", "raised in interrupted", "None", "usable")


def test_a_handler_that_ends_the_session_ends_the_get_that_it_interrupts() -> None:
    body = """
    import signal
    sundog.init(num_cpus=2)
    signal.signal(signal.SIGUSR1, lambda *_: sundog.shutdown())
    ref = sleep.remote(60)
    sundog.get(six.remote())
    say("ready")
    try:
        sundog.get(ref)
    except sundog.exceptions.RaySystemError:
        say("ended")
    sundog.init(num_cpus=1)
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        program.send_signal(signal.SIGUSR1)
        expect(program, "ended")
        expect(program, "usable")


def test_a_handler_of_sigterm_may_fetch_results_and_leave_with_a_code() -> None:
    body = """
    import signal
    done = []
    def leave(number, frame):
        say("saved", sundog.get(done))
        sys.exit(3)
    signal.signal(signal.SIGTERM, leave)  # before the session
    sundog.init(num_cpus=2)
    done = [six.remote(), six.remote()]
    say("ready")
    sundog.get(sleep.remote(60))
    """
    with driver(body) as program:
        expect(program, "ready")
        program.send_signal(signal.SIGTERM)
        expect(program, "saved [6, 6]")
        program.communicate(timeout=120)
        assert program.returncode == 3


def test_sessions_begin_and_end_whole_under_handlers_that_raise() -> None:
    body = """
    import signal
    def handler(number, frame):
        global caught
        if caught:
            caught = False
            raise TimeoutError
    caught = False
    signal.signal(signal.SIGALRM, handler)
    import random
    left = 0
    def until_done(verb, is_done):
        global caught, left
        while not is_done():
            try:
                caught = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.05))
                verb()
                caught = False
            except TimeoutError:
                left += 1
    rounds = 0
    while rounds < 8 or not left:  # on a quick machine a few rounds may end before their signal
        rounds += 1
        until_done(lambda: sundog.init(num_cpus=1), sundog.is_initialized)
        assert sundog.get(six.remote()) == 6
        until_done(sundog.shutdown, lambda: not sundog.is_initialized())
    signal.setitimer(signal.ITIMER_REAL, 0)
    say(left > 0)
    sundog.init(num_cpus=1)
    finish()
    """
    play(body, "True", "usable")


def test_a_program_sees_its_own_handlers_and_gets_them_back() -> None:
    body = """
    from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIG_DFL, SIG_IGN, default_int_handler, getsignal, signal
    import _signal
    def first(*_): pass
    def second(*_): pass
    signal(SIGUSR1, first)
    before = getsignal(SIGHUP)  # ignored, if the tests run under nohup
    sundog.init(num_cpus=1)
    assert getsignal(SIGUSR1) is first and getsignal(SIGINT) is default_int_handler
    assert signal(SIGUSR1, second) is first and getsignal(SIGUSR1) is second
    assert signal(SIGUSR1, SIG_IGN) is second and signal(SIGUSR1, first) == SIG_IGN
    assert getsignal(SIGHUP) == before and getsignal(SIGTERM) != SIG_DFL  # which ends the session, too
    try:
        signal(SIGUSR1, 12345)
    except TypeError:
        say("refused")
    assert getsignal(SIGUSR1) is first
    sundog.shutdown()
    assert _signal.getsignal(SIGUSR1) is first and _signal.getsignal(SIGINT) is default_int_handler
    assert _signal.getsignal(SIGTERM) == SIG_DFL
    assert type(_signal.signal).__name__ == "builtin_function_or_method"
    say("same")
    """
    play(body, "refused", "same")


def test_handlers_of_an_asyncio_loop_are_called_once_for_each_signal() -> None:
    body = """
    import asyncio, os, signal
    sundog.init(num_cpus=2)
    async def main():
        calls = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: calls.append(1))
        for expected in range(1, 21):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert await six.remote() == 6
            assert sundog.get(six.remote()) == 6
            while len(calls) < expected:
                await asyncio.sleep(0)
        say(len(calls))
    asyncio.run(main())
    finish()
    """
    play(body, "20", "usable")


def test_a_timer_that_a_task_leaves_running_does_not_end_its_worker() -> None:
    body = """
    import os, signal
    sundog.init(num_cpus=1, log_to_driver=False)
    @sundog.remote(max_retries=0)
    def leave_timer():
        def handler(number, frame):
            raise ValueError("of a task that is over")
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        return os.getpid()
    @sundog.remote(max_retries=0)
    def stop_timer():
        signal.setitimer(signal.ITIMER_REAL, 0)
        return os.getpid()
    def once_more(task):
        while True:
            try:
                return sundog.get(task.remote())
            except ValueError:
                pass  # the timer may fire before the task has returned
    pid = once_more(leave_timer)
    time.sleep(0.1)
    say(once_more(stop_timer) == pid)
    finish()
    """
    play(body, "True", "usable")


def test_a_task_may_be_ended_by_its_own_alarm_while_it_waits_for_another() -> None:
    body = """
    import signal
    sundog.init(num_cpus=2)
    @sundog.remote
    def impatient():
        def handler(number, frame):
            raise TimeoutError("too long")
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        return sundog.get(sleep.remote(60))
    try:
        sundog.get(impatient.remote())
    except TimeoutError as error:
        say("too long" in str(error))
    finish()
    """
    play(body, "True", "usable")


def test_a_signal_handler_of_an_idle_actor_runs_and_may_use_verbs() -> None:
    body = """
    import os, signal
    sundog.init(num_cpus=2)
    @sundog.remote
    class Reporter:
        def __init__(self):
            self.got = []
            signal.signal(signal.SIGUSR1, lambda *_: self.got.append(sundog.get(six.remote())))
        def pid(self):
            return os.getpid()
        def all(self):
            return self.got
    actor = Reporter.remote()
    pid = sundog.get(actor.pid.remote())
    for expected in range(1, 11):
        os.kill(pid, signal.SIGUSR1)
        while len(sundog.get(actor.all.remote())) < expected:
            pass
    say(sundog.get(actor.all.remote()))
    finish()
    """
    play(body, str([6] * 10), "usable")


def test_a_child_of_fork_keeps_the_handlers_of_the_program() -> None:
    body = """
    import os, signal
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
    sundog.init(num_cpus=1)
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(30)
        os._exit(1)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finish()
    """
    play(body, "7", "usable")


def test_names_of_actors_are_free_after_their_creation_was_interrupted() -> None:
    body = """
    import signal
    sundog.init(num_cpus=2)
    @sundog.remote(num_cpus=0)
    class Empty:
        pass
    def handler(number, frame):
        raise TimeoutError
    signal.signal(signal.SIGALRM, handler)
    handles = []
    for number in range(60):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + number % 7))
                handles.append(Empty.options(name=f"name-{number}").remote())
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)  # the alarm may come before this, too
        except TimeoutError:
            pass
    kept = len(handles)
    from sundog.util import list_named_actors
    deadline = time.monotonic() + 120
    while len(list_named_actors()) > kept and time.monotonic() < deadline:
        time.sleep(0.01)
    say(len(list_named_actors()) == kept)
    finish()
    """
    play(body, "True", "usable")
