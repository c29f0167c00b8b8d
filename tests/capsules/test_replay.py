"""Arguments out of a capsule."""

from __future__ import annotations

import pickle
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from sundog.capsules import capture, replay
from sundog.capsules.rows import UNENDED, Lent, Outcome, Packed
from sundog.serialize import by_code
from sundog.serialize.pack import pack
from tests.capsules.made import HEADER, contents


class Unloadable:
    """An argument that cannot be rebuilt."""

    def __reduce__(self) -> tuple[object, ...]:
        return (refuse, ())


def refuse() -> None:
    raise ValueError("cannot be loaded")


def test_an_argument_that_is_too_large_is_known_again_or_said_to_be_gone(tmp_path: Path) -> None:
    import numpy as np

    array = np.arange(100_000.0)
    meta, buffers, _ = pack((array,), 1 << 16)
    assert buffers is not None
    (tmp_path / "segment").write_bytes(bytes(buffers[0]))
    location = ("segment", 0, ((0, buffers[0].nbytes),))
    packer = capture.Packer(1000, lambda *_: buffers, str(tmp_path))
    packed = packer.arguments(("obj", b"\1" * 20, meta, location))
    assert packed is not None and isinstance(packed.buffers, Lent) and len(packer.absent) == 1
    args, _ = replay._arguments(packed, (), {})
    assert (args[0] == array).all()
    del args
    (tmp_path / "segment").write_bytes(b"\0" * buffers[0].nbytes)
    with pytest.raises(replay.CannotReplay, match="too large for the capsule, and its object is gone"):
        replay._arguments(packed, (), {})


def test_an_edited_file_is_taken_without_the_program_in_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import math\nSCALE = 3\nTABLE = load()\n"
        "def f(x):\n    return math.floor(x) * SCALE + LIMIT\nprint(f.remote(1))\n"
    )
    names: dict[str, Any] = {"LIMIT": 100}
    exec("def f(x):\n    return LIMIT", names)
    header = HEADER._replace(source=f"{path}:4")
    found = replay._from_file(header, names["f"])
    assert callable(found) and found(2.5) == 106
    path.write_text("def g(): ...\n")
    with pytest.raises(replay.CannotReplay, match="defines no f"):
        replay._from_file(header, names["f"])


def _prepared(function: Any, *args: object, returns: str = "1") -> replay.Prepared:
    return replay.Prepared(function, lambda: replay.Bound(function, args, {}), "", "f", returns)


def test_an_async_generator_runs_to_its_last_item() -> None:
    async def count(number: int) -> AsyncIterator[int]:
        for each in range(number):
            yield each

    assert _prepared(count, 3, returns="streaming").call().text == "3 items: 0, 1, 2"


def test_what_is_raised_while_arguments_are_loaded_is_an_outcome_of_the_task() -> None:
    packed = Packed(pickle.dumps(((Unloadable(),), {})))
    prepared = replay.prepare(HEADER, contents(function=pickle.dumps(len), args=packed))
    with pytest.raises(ValueError, match="cannot be loaded"):
        prepared.call()


def test_arguments_of_a_module_that_is_not_here_are_told_of_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("of_a_colleague")
    module.Thing = type("Thing", (), {"__module__": "of_a_colleague"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "of_a_colleague", module)
    packed = Packed(pickle.dumps(((module.Thing(),), {})))
    monkeypatch.delitem(sys.modules, "of_a_colleague")
    prepared = replay.prepare(HEADER, contents(function=pickle.dumps(len), args=packed))
    with pytest.raises(
        replay.CannotReplay, match=r"arguments of f cannot be loaded here.*No module named 'of_a_colleague'"
    ):
        prepared.call()
    # If the task itself had failed so, the failure is the same.
    header = HEADER._replace(
        outcome=Outcome("ModuleNotFoundError", "No module named 'of_a_colleague'", "elsewhere")
    )
    with pytest.raises(ModuleNotFoundError):
        replay.prepare(header, contents(function=pickle.dumps(len), args=packed)).call()


def test_code_of_another_python_is_refused_and_what_is_imported_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = ModuleType("__main__")
    exec("def f(x):\n    return x", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    header = HEADER._replace(versions={"python": "3.9.18"})
    for blob in (cloudpickle.dumps(lambda: 1), by_code.pickled(vars(main)["f"])):
        with pytest.raises(replay.CannotReplay, match=r"by Python 3\.9\.18 .* with Python 3\.9\."):
            replay.prepare(header, contents(function=blob))
    assert replay.prepare(header, contents(function=pickle.dumps(len))).function is len


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (Outcome("E", "<T at 0x7f86548adbd0>", "f.py:1 f"), Outcome("E", "<T at 0x7f0000000000>", ""), "The same"),
        (
            Outcome("RayTaskError(E)", f"f() (pid=12, task={'a' * 32})"),
            Outcome("RayTaskError(E)", f"f() (pid=345, task={'b' * 32})"),
            "The same outcome",
        ),
        (Outcome("E", "3", "f.py:1 f"), Outcome("E", "4", "f.py:1 f"), "The same class of exception at the same"),
        (Outcome("E", "3", "f.py:1 f"), Outcome("E", "3.5", "f.py:2 f"), "Another outcome"),
        (UNENDED, Outcome(text="3"), "Then it did not end: its process died, or it runs still. Now it returned 3"),
    ],
)  # fmt: skip
def test_outcomes_are_compared_without_what_is_another_in_each_run(
    then: Outcome, now: Outcome, said: str
) -> None:
    assert said in replay.compare(then, now)
    assert then.is_same(now) is replay.compare(then, now).startswith("The same outcome")
