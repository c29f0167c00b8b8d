"""What a terminal shows of an error, of a crash and of a start: the user's frames, each thing once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType

import pytest

from tests.integration import drivers

OURS = str(Path(drivers.SOURCE) / "sundog")


def errors_of(program: str, **environ: str) -> str:
    with drivers.running(program, **environ) as driver:
        driver.rest()
        driver.close()
    return "".join(driver.errors)


FAILING = """
    ray.init(num_cpus=1)
    @ray.remote
    def fail(key):
        return {}[key]
    def user_code():
        ray.get(GET)
    user_code()
"""


@pytest.mark.parametrize("what", ["fail.remote('k')", "[fail.remote('k')]"])
def test_a_program_that_ends_with_a_tasks_error_shows_the_users_frames(what: str) -> None:
    told = errors_of(FAILING.replace("GET", what))
    assert f'File "{OURS}' not in told, told
    shown = told[told.index("Traceback") :].splitlines()
    assert "in <module>" in shown[1] and any("in user_code" in line for line in shown)
    assert any("RayTaskError(KeyError): sundog::fail()" in line for line in shown)
    assert any("in fail" in line for line in shown) and shown[-2] == "KeyError: 'k'"
    assert shown[-1].startswith("Why: sundog why ")


def test_a_setting_shows_all_frames() -> None:
    told = errors_of("ray.init(num_cpus=1)\nray.get(7)", SUNDOG_full_tracebacks="1")
    assert f'File "{OURS}' in told


def test_a_refused_call_shows_the_users_frames() -> None:
    told = errors_of("ray.init(num_cpus=1)\n@ray.remote\ndef f(a): pass\nf.remote()")
    assert f'File "{OURS}' not in told and "missing a required argument" in told


@pytest.mark.parametrize(
    "bad", [{"SUNDOG_shm_dir": "/nowhere"}, {"SUNDOG_temp_dir": "/proc/none"}, {"SUNDOG_spin_us": "many"}]
)
def test_a_session_that_cannot_start_says_why_in_one_sentence(bad: dict[str, str]) -> None:
    told = errors_of("ray.init(num_cpus=1)", **bad)
    (setting,) = bad
    frames = [line for line in told.splitlines() if line.startswith("  File ")]
    assert len(frames) == 1 and OURS not in told, told
    assert setting in told.splitlines()[-1]
    full = errors_of("ray.init(num_cpus=1)", **bad, SUNDOG_full_tracebacks="1")
    assert setting == "SUNDOG_spin_us" or f'File "{OURS}' in full  # a bad setting hides the other settings


def test_a_programs_own_hook_is_left_in_place() -> None:
    told = errors_of(
        "import sys; sys.excepthook = lambda *_: print('mine', file=sys.stderr)\nray.init(num_cpus=1)\nray.get(7)"
    )
    assert told.endswith("mine\n") and "Traceback" not in told


def test_a_caught_error_begins_with_the_users_frames_and_keeps_its_cause(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote(), timeout=120)
    # Folded by pytest, by what our modules say of themselves.
    assert [Path(str(entry.path)) for entry in caught.traceback.filter(caught)] == [Path(__file__)]
    assert isinstance(caught.value.cause, KeyError)


def test_a_notebook_folds_the_frame_of_get(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote(), timeout=120)
    trace = caught.value.__traceback__
    inner = []
    while trace is not None:
        inner.append(trace.tb_frame)
        trace = trace.tb_next
    # IPython leaves out frames with this local.
    assert all("__tracebackhide__" in frame.f_locals for frame in inner[1:])


def test_a_crash_is_reported_once() -> None:
    told = errors_of(
        """
        import ctypes
        ray.init(num_cpus=1)
        @ray.remote(max_retries=0)
        def crash():
            ctypes.string_at(0)
        ray.get(crash.remote())
        """
    )
    assert told.count("in crash") == 1, told
    assert told.count("its stack is in the error of the task") <= 1
    assert "it crashed with SIGSEGV" in told


# ---------------------------------------------------------------------- the start
def test_init_says_what_was_started_and_the_next_command_in_one_line() -> None:
    told = errors_of("ray.init(num_cpus=3, object_store_memory=2**30)").splitlines()
    assert len(told) == 1 and told[0].startswith("(sundog) Started session_")
    assert told[0].endswith("with 3 CPUs, 1.0 GiB for objects. What runs and waits: sundog status")


@pytest.mark.parametrize("how", ["logging_level='warning'", "configure_logging=False"])
def test_the_line_can_be_silenced(how: str) -> None:
    assert errors_of(f"ray.init(num_cpus=1, {how})") == ""


def test_a_program_that_uses_logging_gets_the_same_line() -> None:
    told = errors_of("import logging\nray.init(num_cpus=1)").splitlines()
    assert len(told) == 1 and told[0].startswith("(sundog) Started session_")


def test_the_line_costs_no_import_of_logging() -> None:
    with drivers.running("import sys\nray.init(num_cpus=1)\nprint('logging' in sys.modules)") as driver:
        assert driver.rest() == ["False"]
        driver.close()


def test_a_notebook_shows_a_card_of_the_session() -> None:
    program = """
        import sundog as ray
        context = ray.init(num_cpus=2, resources={"<b>": 1})
        card = context._repr_html_()
        ray.shutdown()
        print(card)
        print(context._repr_html_())
        print(ray.is_initialized())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    card, after, still = done.stdout.splitlines()
    assert "2 CPUs, 1 &lt;b&gt;" in card and "sundog status --session session_" in card
    assert "has left the session" in after and still == "False"


def refused_calls(ray: ModuleType) -> dict[str, Callable[[], object]]:
    """Calls that sundog refuses, one at least for each part of the public interface."""
    import threading

    from sundog.util import scheduling_strategies as strategies
    from sundog.util import state
    from sundog.util.multiprocessing import Pool
    from sundog.util.placement_group import get_placement_group, placement_group
    from sundog.util.queue import Queue

    f = ray.remote(lambda x=1: x)
    cls = ray.remote(type("A", (), {"m": lambda self: 1}))
    actor = cls.options(name="taken").remote()
    return {
        "an unknown option": lambda: f.options(foo=1),
        "a bad option": lambda: f.options(num_cpus=-1),
        "a bad option of an actor": lambda: cls.options(name=3),
        "a bad option of a method": lambda: ray.method(foo=1),
        "a bad selector": lambda: f.options(label_selector={"a": "in("}),
        "a name that nobody has": lambda: ray.get_actor("nobody"),
        "a name that is taken": lambda: cls.options(name="taken").remote(),
        "a group of nothing": lambda: placement_group([]),
        "a group that is not there": lambda: get_placement_group("nobody"),
        "a bad strategy": lambda: strategies.NodeLabelSchedulingStrategy(hard={"a": 3}),  # type: ignore[dict-item]
        "a bad environment": lambda: f.options(runtime_env={"env_vars": 3}).remote(),
        "an argument that cannot be pickled": lambda: f.remote(threading.Lock()),
        "a value that cannot be pickled": lambda: ray.put(threading.Lock()),
        "no ref": lambda: ray.get(3),
        "too many arguments": lambda: actor.m.remote(1, 2),
        "a pool of nobody": lambda: Pool(-1),
        "an empty queue": lambda: Queue().get_nowait(),
        "a bad filter": lambda: state.list_actors(filters=[("a", "=")]),  # type: ignore[list-item]
        "no ref to free": lambda: ray.internal.free(3),
    }


def test_pytest_folds_our_frames_of_every_refusal(ray: ModuleType) -> None:
    """pytest leaves out frames whose file or function has `__tracebackhide__`."""
    shown = {}
    for what, call in refused_calls(ray).items():
        with pytest.raises(Exception) as caught:
            call()
        frames = [step.tb_frame for step in steps_of(caught.value.__traceback__)]
        ours = [frame for frame in frames if frame.f_code.co_filename.startswith(OURS)]
        assert ours, what
        shown[what] = [
            frame.f_code.co_filename
            for frame in ours
            if not {**frame.f_globals, **frame.f_locals}.get("__tracebackhide__")
        ]
    assert {what: files for what, files in shown.items() if files} == {}


def steps_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
