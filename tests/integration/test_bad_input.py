"""Bad input: each gives an error that a person can act on, and the session stays usable."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import sundog
from sundog.exceptions import OwnerDiedError, RaySystemError, RayTaskError
from sundog.wire.requests import Status
from tests.integration.gates import await_true

if TYPE_CHECKING:
    from sundog.wire.status import PendingRow

GET_S = 120
LOCK = threading.Lock()


@pytest.fixture
def ray(ray_session: Callable[..., ModuleType]) -> Iterator[ModuleType]:
    """A session that must still run a task when the test is over."""
    ray = ray_session(num_cpus=2)
    yield ray
    if ray.is_initialized():
        assert_usable(ray)


def assert_usable(ray: ModuleType) -> None:
    @ray.remote
    def alive() -> str:
        return "alive"

    assert ray.get(alive.remote(), timeout=GET_S) == "alive"


class Holder:
    """Carries something that cannot be pickled."""

    def __init__(self) -> None:
        self.name = "holder"
        self.guard = threading.Lock()


# ---------------------------------------------------------------------- what cannot be pickled
def test_an_unpicklable_argument_is_refused_at_the_call_and_named(ray: ModuleType) -> None:
    @ray.remote
    def use(*_: Any, **__: Any) -> None:
        return None

    for call in (lambda: use.remote(Holder()), lambda: use.remote(1, deep=[{"x": Holder()}])):
        with pytest.raises(TypeError, match=r"guard is a _thread\.lock") as caught:
            call()
        assert "use()" in str(caught.value)
        assert "inspect_serializability" in str(caught.value)


def test_an_unpicklable_value_given_to_put_is_named(ray: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"guard is a _thread\.lock"):
        ray.put([Holder()])


def test_an_unpicklable_result_fails_its_task_and_is_named(ray: ModuleType) -> None:
    @ray.remote
    def make() -> Any:
        return {"k": [threading.Lock()]}

    with pytest.raises(TypeError, match=r"\['k'\]\[0\] is a _thread\.lock") as caught:
        ray.get(make.remote(), timeout=GET_S)
    assert "result of" in str(caught.value)
    assert "make()" in str(caught.value)


def test_an_unpicklable_item_of_a_generator_is_named(ray: ModuleType) -> None:
    @ray.remote
    def items() -> Iterator[Any]:
        yield 1
        yield threading.Lock()

    generator = items.remote()
    assert ray.get(next(generator), timeout=GET_S) == 1
    with pytest.raises(TypeError, match=r"_thread\.lock"):
        ray.get(next(generator), timeout=GET_S)


def test_an_unpicklable_exception_still_arrives(ray: ModuleType) -> None:
    class Odd(ValueError):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")
            self.lock = threading.Lock()

    @ray.remote
    def fail(kind: str) -> None:
        if kind == "odd":
            raise Odd(1, 2)
        raise ValueError("plain", threading.Lock())

    for kind, text in (("odd", "1 and 2"), ("plain", "plain")):
        with pytest.raises(ValueError, match=text) as caught:
            ray.get(fail.remote(kind), timeout=GET_S)
        assert isinstance(caught.value, RayTaskError)
        assert "in fail" in str(caught.value)


def test_an_unpicklable_function_names_what_it_captured_and_where(ray: ModuleType) -> None:
    guard = threading.Lock()

    @ray.remote
    def from_closure() -> bool:
        return guard.locked()

    def helper() -> bool:
        return from_closure is not None and guard.locked()

    @ray.remote
    def through_helper() -> bool:
        return helper()

    with pytest.raises(TypeError, match=r"`?guard`?.*_thread\.lock") as caught:
        from_closure.remote()
    assert "from_closure" in str(caught.value)
    assert "test_bad_input.py:" in str(caught.value)
    with pytest.raises(TypeError, match="guard"):
        through_helper.remote()


def test_an_unpicklable_actor_argument_and_class_are_named(ray: ModuleType) -> None:
    guard = threading.Lock()

    @ray.remote
    class Plain:
        def __init__(self, value: Any = None) -> None:
            self.value = value

        def take(self, value: Any) -> None:
            self.value = value

    @ray.remote
    class Capturing:
        def look(self) -> bool:
            return guard.locked()

    with pytest.raises(TypeError, match="guard"):
        Plain.remote(Holder())
    with pytest.raises(TypeError, match="guard"):
        Capturing.remote()
    actor = Plain.remote()
    with pytest.raises(TypeError, match="guard"):
        actor.take.remote(Holder())
    assert ray.get(actor.take.remote(1), timeout=GET_S) is None


def test_an_object_that_cannot_be_unpickled_fails_the_task_that_reads_it(ray: ModuleType) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return _spring, ()

    @ray.remote
    def use(_: Any) -> None:
        return None

    with pytest.raises(ArithmeticError, match="sprung"):
        ray.get(use.remote(Trap()), timeout=GET_S)
    with pytest.raises(ray.exceptions.RaySystemError, match="sprung"):
        ray.get(ray.put(Trap()), timeout=GET_S)


def _spring() -> None:
    raise ArithmeticError("the trap has sprung")


# ---------------------------------------------------------------------- sizes
@pytest.mark.skipif(psutil.virtual_memory().available < 8 << 30, reason="needs 8 GB of free memory")
@pytest.mark.skipif(psutil.disk_usage("/dev/shm").free < 5 << 30, reason="needs 5 GB in /dev/shm")
def test_an_argument_of_two_gigabytes_arrives(ray: ModuleType) -> None:
    @ray.remote
    def ends(array: Any) -> tuple[int, int, int]:
        return array.nbytes, int(array[0]), int(array[-1])

    array = np.zeros((2 << 30) + 5, dtype=np.uint8)
    array[0], array[-1] = 3, 7
    assert ray.get(ends.remote(array), timeout=120) == ((2 << 30) + 5, 3, 7)


def test_a_hundred_thousand_arguments_arrive(ray: ModuleType) -> None:
    @ray.remote
    def count(*args: int, **named: int) -> tuple[int, int, int]:
        return len(args), sum(args), len(named)

    assert ray.get(count.remote(*range(100_000)), timeout=GET_S) == (100_000, sum(range(100_000)), 0)
    named = {f"name_{n}": n for n in range(1000)}
    assert ray.get(count.remote(**named), timeout=GET_S) == (0, 0, 1000)


def test_ten_thousand_refs_as_arguments_arrive(ray: ModuleType) -> None:
    @ray.remote
    def total(*args: int) -> int:
        return sum(args)

    refs = [ray.put(n) for n in range(10_000)]
    assert ray.get(total.remote(*refs), timeout=GET_S) == sum(range(10_000))


def test_a_recursive_structure_stays_recursive(ray: ModuleType) -> None:
    @ray.remote
    def turn(loop: list[Any]) -> Any:
        assert loop[0] is loop
        return loop

    loop: list[Any] = []
    loop.append(loop)
    found = ray.get(turn.remote(loop), timeout=GET_S)
    assert found[0] is found
    assert (lambda again: again[0] is again)(ray.get(ray.put(loop), timeout=GET_S))


def test_a_structure_nested_too_deeply_is_refused_with_advice(ray: ModuleType) -> None:
    @ray.remote
    def use(_: Any) -> None:
        return None

    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deeply"):
        use.remote(deep)
    with pytest.raises(TypeError, match="nested too deeply"):
        ray.put(deep)
    while deep:  # its destructor would recurse as deeply
        deep = deep[0]


# ---------------------------------------------------------------------- wrong calls
def test_a_remote_function_called_directly_says_how_to_call_it(ray: ModuleType) -> None:
    @ray.remote
    def work() -> None:
        return None

    @ray.remote
    class Actor:
        def method(self) -> None:
            return None

    with pytest.raises(TypeError, match=r"work\.remote"):
        work()
    with pytest.raises(TypeError, match=r"Actor.*\.remote"):
        Actor()
    with pytest.raises(TypeError, match=r"method.*\.remote"):
        Actor.remote().method()


def test_get_on_something_else_than_a_ref_says_what_it_takes(ray: ModuleType) -> None:
    for value, words in ((3, "int"), ("x", "str"), (None, "NoneType"), ({"a": 1}, "dict"), ({1}, "set")):
        with pytest.raises(ValueError, match=words):
            ray.get(value)
    with pytest.raises(TypeError, match="element 1"):
        ray.get([ray.put(1), 2])
    with pytest.raises(TypeError, match="element 0"):
        ray.get([[ray.put(1)]])
    with pytest.raises(TypeError, match="cancel"):
        ray.cancel(3)
    with pytest.raises(ValueError, match="actor handle"):
        ray.kill(ray.put(1))
    with pytest.raises(ValueError, match="no-such-actor"):
        ray.get_actor("no-such-actor")


def test_get_on_a_list_with_one_failed_ref_raises_its_error(ray: ModuleType) -> None:
    @ray.remote
    def maybe(n: int) -> int:
        if n == 5:
            raise ValueError("number five")
        return n

    refs = [maybe.remote(n) for n in range(10)]
    with pytest.raises(ValueError, match="number five"):
        ray.get(refs, timeout=GET_S)
    assert ray.get(refs[6:], timeout=GET_S) == [6, 7, 8, 9]


def test_a_negative_timeout_of_wait_is_refused(ray: ModuleType) -> None:
    with pytest.raises(ValueError, match="negative"):
        ray.wait([ray.put(1)], timeout=-3)


def test_a_name_that_is_taken_is_refused(ray: ModuleType) -> None:
    @ray.remote
    class Actor:
        def hi(self) -> str:
            return "hi"

    first = Actor.options(name="bob").remote()
    with pytest.raises(ValueError, match="bob"):
        Actor.options(name="bob").remote()
    assert ray.get(ray.get_actor("bob").hi.remote(), timeout=GET_S) == "hi"
    again = Actor.options(name="bob", get_if_exists=True).remote()
    assert ray.get(again.hi.remote(), timeout=GET_S) == "hi"
    del first


# ---------------------------------------------------------------------- infeasible
def pending(ray: ModuleType) -> list[PendingRow]:
    from sundog import api

    return api.control(Status())["pending"]


def test_infeasible_tasks_are_warned_of_once_and_listed(
    ray: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @ray.remote(num_cpus=64)
    def giant() -> None:
        return None

    refs = [giant.remote() for _ in range(5)]
    await_true(lambda: any(row["infeasible"] for row in pending(ray)), "the demand is listed as infeasible")
    assert ray.wait(refs, timeout=0.2)[0] == []
    row = next(row for row in pending(ray) if row["infeasible"])
    assert row["shape"]["CPU"] == 64
    assert row["count"] == 5
    assert_usable(ray)
    text = ""

    def warned() -> bool:
        nonlocal text
        text += capfd.readouterr().err
        return "giant" in text

    await_true(warned, "a warning names the task")
    giant.remote()
    assert_usable(ray)
    text += capfd.readouterr().err
    assert text.count("WARNING") == 1
    assert "sundog status" in text
    for ref in refs:
        ray.cancel(ref)


def test_an_infeasible_actor_is_warned_of(ray: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    @ray.remote(resources={"unicorn": 1})
    class Rider:
        pass

    rider = Rider.remote()
    text = ""

    def warned() -> bool:
        nonlocal text
        text += capfd.readouterr().err
        return "unicorn" in text

    await_true(warned, "a warning names the resource")
    await_true(lambda: any("unicorn" in row["shape"] for row in pending(ray)), "the demand is listed")
    del rider


def test_an_infeasible_task_of_a_task_is_warned_of_too(
    ray: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @ray.remote(resources={"dragon": 1})
    def fly() -> None:
        return None

    @ray.remote
    def outer() -> int:
        return len(sundog.wait([fly.remote()], timeout=1.0)[1])

    assert ray.get(outer.remote(), timeout=GET_S) == 1
    text = ""

    def warned() -> bool:
        nonlocal text
        captured = capfd.readouterr()
        text += captured.err + captured.out
        return "dragon" in text

    await_true(warned, "the worker's warning reaches the driver")


def test_a_task_in_a_task_whose_node_does_not_exist_fails(ray: ModuleType) -> None:
    @ray.remote
    def inner() -> None:
        return None

    @ray.remote
    def outer() -> str:
        from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nowhere = NodeAffinitySchedulingStrategy("ab" * 16, soft=False)
        try:
            sundog.get(inner.options(scheduling_strategy=nowhere).remote(), timeout=120)
        except sundog.exceptions.TaskUnschedulableError as error:
            return str(error)
        return "it ran"

    assert "ab" * 16 in ray.get(outer.remote(), timeout=GET_S)


def test_a_broken_runtime_env_in_a_task_fails_its_children(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def inner() -> None:
        return None

    @ray.remote
    def outer(folder: str) -> str:
        try:
            broken = inner.options(runtime_env={"working_dir": folder})
            sundog.get(broken.remote(), timeout=120)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "it ran"

    missing = str(tmp_path / "missing")
    assert missing in ray.get(outer.remote(missing), timeout=GET_S)


# ---------------------------------------------------------------------- sessions
def test_init_twice_is_refused_unless_it_may_be_ignored(ray: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init()
    assert ray.init(ignore_reinit_error=True)["session_name"]


def test_the_api_after_shutdown_says_so_and_remote_starts_anew(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    class Actor:
        def hi(self) -> int:
            return 1

    actor, ref = Actor.remote(), one.remote()
    ray.get([ref, actor.hi.remote()], timeout=GET_S)
    ray.shutdown()
    ray.shutdown()
    for call in (
        lambda: ray.get(ref),
        lambda: ray.get([ref]),
        lambda: ray.wait([ref]),
        lambda: ray.cancel(ref),
        lambda: ray.kill(actor),
        lambda: actor.hi.remote(),
    ):
        with pytest.raises(RaySystemError, match="init"):
            call()
    with pytest.raises(RuntimeError, match="init"):
        ref.future()
    assert not ray.is_initialized()
    ray.init(num_cpus=1)
    assert ray.get(one.remote(), timeout=GET_S) == 1


def test_a_ref_of_an_earlier_session_is_an_error_not_a_hang(ray: ModuleType) -> None:
    @ray.remote
    def use(_: Any) -> int:
        return 1

    @ray.remote
    class Actor:
        def hi(self) -> int:
            return 1

    small, big, actor = ray.put(1), ray.put(np.zeros(1 << 20)), Actor.remote()
    ray.get(actor.hi.remote(), timeout=GET_S)
    ray.shutdown()
    ray.init(num_cpus=1)
    for ref in (small, big):
        with pytest.raises(OwnerDiedError, match=ref.hex()):
            ray.get(ref, timeout=GET_S)
        with pytest.raises(OwnerDiedError):
            ray.get(use.remote(ref), timeout=GET_S)
        assert ray.wait([ref], timeout=GET_S)[0] == [ref]
    with pytest.raises(sundog.exceptions.RayError):
        ray.get(actor.hi.remote(), timeout=GET_S)


# ---------------------------------------------------------------------- /dev/shm too small
SMALL_SHM = """
import os, sys
import numpy as np
import sundog

folder = sys.argv[1]
sundog.init(num_cpus=2, _system_config={"shm_dir": folder})

@sundog.remote
def total(array):
    return float(array.sum())

@sundog.remote
def make(n):
    return np.full(1 << 19, n)

refs = [sundog.put(np.full(1 << 19, n)) for n in range(6)]
assert sundog.get([total.remote(r) for r in refs]) == [n * (1 << 19) for n in range(6)]
assert [int(a[-1]) for a in sundog.get(refs)] == list(range(6))
made = [make.remote(n) for n in range(6)]
assert [int(a[-1]) for a in sundog.get(made)] == list(range(6))
assert sundog.get(total.remote(np.ones(1 << 20))) == 1 << 20
session = sundog.get_runtime_context().gcs_address
on_disk = os.listdir(session + "/spilled_objects")
assert on_disk, "nothing went to disk"
del refs, made
for _ in range(4):
    sundog.get(total.remote(np.ones(1 << 19)))
assert len(os.listdir(session + "/spilled_objects")) < len(on_disk)
sundog.shutdown()
assert not os.listdir(folder), os.listdir(folder)
print("fine")
"""


def test_a_shared_memory_folder_that_is_too_small_falls_back_to_disk(tmp_path: Path) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    # A mount of its own namespace: it needs no root and vanishes with the program.
    inside = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"', str(folder)]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no mount, not even in a namespace of its own")
    done = subprocess.run(
        [*inside, sys.executable, "-c", SMALL_SHM, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert done.stdout.strip().endswith("fine"), done.stdout + done.stderr


# ---------------------------------------------------------------------- arguments that do not fit
def test_arguments_that_do_not_fit_are_refused_where_the_call_is_written(ray: ModuleType) -> None:
    @ray.remote
    def add(a: int, b: int = 0) -> int:
        return a + b

    @ray.remote
    class Counter:
        def up(self, by: int) -> int:
            return by

    counter = Counter.remote()
    for call in (
        lambda: add.remote(),
        lambda: add.remote(1, 2, 3),
        lambda: add.remote(1, c=2),
        lambda: counter.up.remote(),
        lambda: counter.up.remote(1, by=1),
        lambda: counter.up.options(num_returns=1).remote(1, 2),
    ):
        with pytest.raises(TypeError, match=r"\.remote\(\): .* it takes \("):
            call()
    assert ray.get([add.remote(1, b=2), counter.up.remote(by=4)], timeout=120) == [3, 4]
