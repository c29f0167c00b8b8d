"""Exceptions that resist, raised wherever user code runs: each arrives as its class, and nothing else breaks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

import pytest


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Locked(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.lock = threading.Lock()


class Quits(Exception):
    def __reduce__(self) -> NoReturn:
        raise SystemExit(3)

    __str__ = __reduce__


class Steers(BaseException):
    pass


ODD = [Frozen, Locked, Quits, Steers]


def caught_in(ray: ModuleType, ref: Any, cls: type[BaseException]) -> Any:
    with pytest.raises(cls) as caught:
        ray.get(ref)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    return caught.value


def test_they_arrive_from_tasks_and_through_tasks(ray: ModuleType) -> None:
    @ray.remote
    def fail(cls: type[BaseException]) -> None:
        raise cls(7)

    @ray.remote
    def pass_on(cls: type[BaseException]) -> Any:
        return ray.get(fail.remote(cls))

    for cls in ODD:
        direct = str(caught_in(ray, fail.remote(cls), cls))
        nested = str(caught_in(ray, pass_on.remote(cls), cls))
        assert direct.count("raise cls(7)") == nested.count("raise cls(7)") == 1
        assert nested.index("pass_on") < nested.index("raise cls(7)"), "one stack, the caller first"
    assert ray.get(ray.put(1)) == 1


def test_they_arrive_from_generators(ray: ModuleType) -> None:
    @ray.remote
    def numbers(cls: type[BaseException]) -> Iterator[int]:
        yield 1
        raise cls(7)

    for cls in ODD:
        items = numbers.remote(cls)
        assert ray.get(next(items)) == 1
        caught_in(ray, next(items), cls)


@pytest.mark.parametrize("kind", ["plain", "threaded", "asyncio"])
def test_they_arrive_from_methods_and_the_actor_goes_on(ray: ModuleType, kind: str) -> None:
    class Plain:
        def fail(self, cls: type[BaseException]) -> None:
            raise cls(7)

    class Asyncio:
        async def fail(self, cls: type[BaseException]) -> None:
            raise cls(7)

    actor_class = ray.remote(Asyncio if kind == "asyncio" else Plain)
    actor = actor_class.options(max_concurrency=1 if kind == "plain" else 2).remote()
    for cls in ODD:
        caught_in(ray, actor.fail.remote(cls), cls)
        assert ray.get(actor.__ray_ready__.remote())


def test_they_arrive_from_constructors_as_the_cause_of_the_death(ray: ModuleType) -> None:
    @ray.remote
    class Unborn:
        def __init__(self, cls: type[BaseException]) -> None:
            raise cls(7)

        def ping(self) -> None:
            pass

    for cls in ODD:
        unborn = Unborn.remote(cls)
        with pytest.raises(ray.exceptions.ActorDiedError, match="its constructor raised") as caught:
            ray.get(unborn.ping.remote())
        assert caught.value.actor_init_failed
        assert isinstance(caught.value.cause, ray.exceptions.RayTaskError)
        assert isinstance(caught.value.cause.cause, cls)


def test_a_group_can_be_taken_apart_where_it_arrives(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise ExceptionGroup("both", [Locked(1), ExceptionGroup("deeper", [KeyError("k"), Frozen(2)])])

    seen: list[Any] = []
    try:
        ray.get(fail.remote())
    except* Locked as group:
        seen += [type(each).__bases__ for each in group.exceptions]
    except* Frozen as group:
        seen += [each.exceptions[0].code for each in group.exceptions]  # type: ignore[union-attr]
    except* KeyError as group:
        seen += [group.exceptions[0].exceptions[0].args]  # type: ignore[union-attr]
    assert len(seen) == 3 and 2 in seen and ("k",) in seen


def test_an_object_that_cannot_be_loaded_is_a_system_error_with_the_reason(ray: ModuleType) -> None:
    class Broken:
        def __reduce__(self) -> Any:
            return eval, ("1/0",)

    for ref in (ray.put(Broken()), ray.put([Broken(), b"x" * 200_000])):
        with pytest.raises(ray.exceptions.RaySystemError, match="division by zero") as caught:
            ray.get(ref)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_that_a_task_raises_itself_is_a_cancellation(ray: ModuleType) -> None:
    @ray.remote
    def interrupts() -> None:
        raise KeyboardInterrupt

    with pytest.raises(ray.exceptions.TaskCancelledError) as caught:
        ray.get(interrupts.remote())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_an_exception_that_cannot_be_brought_here_says_so_by_its_class(ray: ModuleType) -> None:
    class Picky(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("both")

    @ray.remote
    def raises() -> None:
        raise Picky(1, 2)

    for kind in (Picky, ray.exceptions.RayTaskError, ray.exceptions.UnserializableException):
        with pytest.raises(kind):
            ray.get(raises.remote())


def test_a_function_of_a_hundred_megabytes_is_refused(ray: ModuleType) -> None:
    large = bytearray(101_000_000)

    @ray.remote
    def captures() -> int:
        return len(large)

    @ray.remote
    class Captures:
        def size(self) -> int:
            return len(large)

    with pytest.raises(ValueError, match="remote function captures is too large"):
        captures.remote()
    with pytest.raises(ValueError, match="actor Captures is too large"):
        Captures.remote()


def test_modules_of_the_package_may_be_mentioned_in_a_closure(ray: ModuleType) -> None:
    from sundog import util

    @ray.remote
    def names(given: Any) -> tuple[str, str]:
        return util.placement_group.__name__, given.ActorPool.__name__

    assert ray.get(names.remote(util)) == ("placement_group", "ActorPool")


def test_arrays_from_two_kilobytes_on_are_aligned(ray: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")

    @ray.remote
    def same(array: Any) -> Any:
        return array.ctypes.data % 64, array

    sizes = (2048, 5000, 60_000, 70_000, 200_001)
    for array in ray.get(ray.put([numpy.arange(size, dtype="u1") for size in sizes])):
        assert array.ctypes.data % 64 == 0 and not array.flags.writeable
    for size in sizes:
        seen, back = ray.get(same.remote(numpy.arange(size, dtype="u1")))
        assert (seen, back.ctypes.data % 64, back.flags.writeable) == (0, 0, False)
        assert (back == numpy.arange(size, dtype="u1")).all()
    small = ray.get(ray.put([numpy.arange(each, dtype="f8") for each in range(20)]))
    assert {array.ctypes.data % 8 for array in small} == {0}


def test_a_function_that_cannot_be_loaded_in_its_worker_is_a_runtime_error_that_says_why(
    ray: ModuleType, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    (tmp_path / "gone_from_disk.py").write_text("def helper(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("gone_from_disk")
    (tmp_path / "gone_from_disk.py").unlink()

    @ray.remote
    def uses() -> Any:
        return module.helper()

    with pytest.raises(RuntimeError, match="cannot be loaded") as caught:
        ray.get(uses.remote())
    assert "ModuleNotFoundError: No module named 'gone_from_disk'" in str(caught.value)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
