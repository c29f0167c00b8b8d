"""Fixtures for every test: a leak check around each, and a running sundog for those that ask for one.

Owns the test's temporary folder and the life of its session. Nothing here imports sundog until a test wants a
session, so that the pure parts can be tested on their own.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import importlib.util
import itertools
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import both_engines, leaks

DEFAULT_SEEDS = 10

_numbers = itertools.count()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and pass that on: the drivers that tests interrupt would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        type=int,
        default=DEFAULT_SEEDS,
        help=f"how many random histories each randomised test of a machine plays (default {DEFAULT_SEEDS})",
    )


def pytest_configure() -> None:
    if not sys.dont_write_bytecode:
        return
    # Where bytecode is not to be written, each of the thousand processes to come would compile sundog anew, which
    # is half of all the work of a run. Once is enough.
    package = importlib.util.find_spec("sundog")
    if package is not None:
        for folder in package.submodule_search_locations or ():
            compileall.compile_dir(folder, quiet=2)
    # pytest rewrites the assertions of every test file, 20 s for all of them, in each process that collects them,
    # unless it may keep what it made. This process may; those that tests start inherit the environment unchanged.
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector leave alone what the collection of tests makes, now and for ever.

    Of seven thousand tests these are 330,000 objects. Each full collection would walk through them for 0.16 s: the
    collections of the leak check, and those that programs under test ask for, more than the tests themselves need.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if both_engines.ON_RAY:
        both_engines.choose(config, items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if both_engines.ON_RAY and report.failed:
        both_engines.failures.append(report.nodeid)


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds a randomised test shall play: ``for seed in seeds: …``; more of them by ``--seeds N``."""
    return range(int(request.config.getoption("--seeds")))


@pytest.fixture(scope="session")
def run_folder() -> Iterator[Path]:
    """One folder for the sessions of this whole run. Short, for socket paths below it end at 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="sd-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def leak_check(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Fail a test that leaves a process, thread, descriptor or shared-memory segment behind.

    Yields:
        The folder below which every session of this test lives. It is the test's own, so `init` joins or
        sweeps no session but this test's, and whatever names the folder was started by this test.
    """
    folder = run_folder / f"t{next(_numbers):05d}"
    if both_engines.ON_RAY:
        yield folder  # the cluster and the connection to it outlive a test
        return
    monkeypatch.setenv("SUNDOG_temp_dir", str(folder))
    # Tests of the head process ask for it; to all others it would be one more process to start.
    monkeypatch.setenv("SUNDOG_include_dashboard", "0")
    before = leaks.Snapshot.take(str(folder))
    yield folder
    found = leaks.find(before) if not _still_initialised() else ["a session: call sundog.shutdown()"]
    if found:
        # The next test shall be judged by what it does, not by what this one left.
        _shut_down()
        leaks.kill_processes(before)
    shutil.rmtree(folder, ignore_errors=True)
    if found:
        pytest.fail("the test left behind:\n" + "\n".join(f"  - {leak}" for leak in found), pytrace=False)


@pytest.fixture
def ray_session(leak_check: Path) -> Iterator[Callable[..., ModuleType]]:
    """Start sundog with arguments of the test's choice: ``ray = ray_session(num_cpus=1)``.

    It may be called again after the test has shut the session down; the last one is shut down for it.
    """

    def start(**arguments: Any) -> ModuleType:
        sundog = importlib.import_module("sundog")
        if both_engines.ON_RAY:
            return both_engines.connect(sundog, arguments)
        sundog.init(**arguments)
        return sundog

    yield start
    if both_engines.ON_RAY:
        both_engines.clean(importlib.import_module("sundog"))
    else:
        _shut_down()


@pytest.fixture
def ray(ray_session: Callable[..., ModuleType]) -> ModuleType:
    """A sundog of four logical CPUs, started for this test and shut down after it."""
    return ray_session(num_cpus=4)


def _still_initialised() -> bool:
    sundog: Any = sys.modules.get("sundog")
    # A package without its runtime has no session either: units are tested before it exists.
    return hasattr(sundog, "is_initialized") and bool(sundog.is_initialized())


def _shut_down() -> None:
    if _still_initialised():
        sys.modules["sundog"].shutdown()
