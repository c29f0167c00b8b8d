"""Ctrl-C: a real SIGINT to a real driver, wherever it is. The session must run tasks afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.programs_of_drivers import driver, expect


@pytest.mark.parametrize(
    "blocking",
    [
        "sundog.get(ref)",
        "sundog.get(ref, timeout=60)",
        "sundog.get([six.remote(), ref])",
        "sundog.wait([ref])",
        "sundog.wait([ref], timeout=60)",
    ],
)
def test_ctrl_c_interrupts_a_blocked_call_and_leaves_the_session_usable(blocking: str) -> None:
    body = f"""
    sundog.init(num_cpus=2)
    ref = sleep.remote(60)
    sundog.get(six.remote())
    try:
        say("ready")
        {blocking}
    except KeyboardInterrupt:
        say("interrupted")
    sundog.cancel(ref, force=True)
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        time.sleep(0.1)  # into the blocking call; the test holds either way
        program.send_signal(signal.SIGINT)
        expect(program, "interrupted")
        expect(program, "usable")
        expect(program, "done")
        assert program.wait(120) == 0


def test_ctrl_c_from_a_terminal_reaches_the_group_but_not_the_session() -> None:
    body = """
    sundog.init(num_cpus=2)
    ref = sleep.remote(60)
    sundog.get(six.remote())
    try:
        say("ready")
        sundog.get(ref)
    except KeyboardInterrupt:
        say("interrupted")
    say(len(sundog.wait([ref], timeout=0)[1]))
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        os.killpg(program.pid, signal.SIGINT)
        expect(program, "interrupted")
        expect(program, "1")  # the task was not told
        expect(program, "usable")


def interrupt_later_each_time(program: subprocess.Popen[str], rounds: int) -> None:
    """Interrupt a loop at other places in each round."""
    for number in range(rounds):
        expect(program, "ready")
        time.sleep(0.005 + 0.007 * number)
        program.send_signal(signal.SIGINT)
        expect(program, "interrupted")


def test_ctrl_c_while_tasks_are_submitted_in_a_tight_loop() -> None:
    body = """
    import gc
    sundog.init(num_cpus=2)
    sundog.get(six.remote())
    for round_number in range(8):
        refs = []
        try:
            say("ready")
            while True:
                refs.append(six.remote())
                if len(refs) % 2000 == 0:
                    sundog.get(refs.pop())
        except KeyboardInterrupt:
            say("interrupted")
        assert set(sundog.get(refs, timeout=60)) <= {6}
    finish()
    """
    with driver(body) as program:
        interrupt_later_each_time(program, rounds=8)
        expect(program, "usable")
        expect(program, "done")


def test_ctrl_c_while_large_objects_are_put_and_got() -> None:
    body = """
    import numpy as np
    sundog.init(num_cpus=2)
    array = np.arange(1 << 18)
    for round_number in range(6):
        try:
            say("ready")
            while True:
                ref = sundog.put(array)
                assert sundog.get(ref)[-1] == (1 << 18) - 1
                sundog.get(six.remote())
        except KeyboardInterrupt:
            say("interrupted")
    finish()
    """
    with driver(body) as program:
        interrupt_later_each_time(program, rounds=6)
        expect(program, "usable")


def test_an_uncaught_ctrl_c_ends_the_program_and_its_session(leak_check: Path) -> None:
    body = """
    sundog.init(num_cpus=2)
    ref = sleep.remote(60)
    sundog.get(six.remote())
    say("ready")
    sundog.get(ref)
    """
    with driver(body) as program:
        expect(program, "ready")
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=120)
        assert program.returncode in (-signal.SIGINT, 130, 1)
        assert "KeyboardInterrupt" in errors


def test_a_program_with_its_own_sigint_handler_keeps_it() -> None:
    body = """
    import signal
    calls = []
    signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    sundog.init(num_cpus=2)
    ref = sleep.remote(0.6)
    sundog.get(six.remote())
    say("ready")
    sundog.get(ref)
    say("calls", len(calls))
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        program.send_signal(signal.SIGINT)
        expect(program, "calls 1")
        expect(program, "usable")


def test_ctrl_c_works_when_init_ran_in_another_thread() -> None:
    body = """
    import threading
    thread = threading.Thread(target=lambda: sundog.init(num_cpus=2))
    thread.start()
    thread.join()
    ref = sleep.remote(60)
    sundog.get(six.remote())
    try:
        say("ready")
        sundog.get(ref)
    except KeyboardInterrupt:
        say("interrupted")
    finish()
    """
    with driver(body) as program:
        expect(program, "ready")
        time.sleep(0.1)
        program.send_signal(signal.SIGINT)
        expect(program, "interrupted")
        expect(program, "usable")


def test_ctrl_c_never_tears_bookkeeping_though_init_ran_in_another_thread() -> None:
    body = """
    import os, signal, threading
    from sundog import engines
    thread = threading.Thread(target=lambda: sundog.init(num_cpus=2))
    thread.start()
    thread.join()
    reactor = engines.current().owner.reactor
    after = reactor.after
    def interrupted_in_the_middle():
        if threading.current_thread() is threading.main_thread():
            reactor.after = after
            os.kill(os.getpid(), signal.SIGINT)
            say("not torn")
        after()
    reactor.after = interrupted_in_the_middle
    try:
        sundog.get(sleep.remote(60))
    except KeyboardInterrupt:
        say("interrupted")
    finish()
    """
    with driver(body) as program:
        expect(program, "not torn")
        expect(program, "interrupted")
        expect(program, "usable")


def test_ctrl_c_is_guarded_in_the_session_after_one_that_another_thread_ended() -> None:
    body = """
    import signal, threading
    from sundog import engines
    sundog.init(num_cpus=1)
    thread = threading.Thread(target=sundog.shutdown)
    thread.start()
    thread.join()
    sundog.init(num_cpus=2)
    import _signal
    from sundog.owner import interrupts
    assert interrupts._lock is engines.current().owner.lock
    say(_signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    sundog.shutdown()
    say(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    with driver(body) as program:
        expect(program, "True")
        expect(program, "True")
