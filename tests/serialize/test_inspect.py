"""Naming the member that cannot be pickled."""

from __future__ import annotations

import functools
import io
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sundog import refs
from sundog.serialize import inspect
from sundog.serialize.inspect import explain, inspect_serializability

LOCK_TYPE = "a _thread.lock"


class Holder:
    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


class Careful:
    """Leaves its lock out, but not its file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inner = [threading.Lock()]

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner}


class Refusing:
    def __reduce__(self) -> tuple[Any, ...]:
        raise RuntimeError("stays here")


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Bag(dict[str, Any]):
    pass


def headline(value: Any, what: str = "args") -> str:
    """The first line of the message for `value`, after a real failure to pickle it."""
    with pytest.raises(Exception) as caught:
        cloudpickle.dumps(value)
    return explain(value, caught.value, what=what).splitlines()[0]


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda lock: (1, 2, Holder(config={"lock": lock})), "args[2].config['lock']"),
        (lambda lock: [{"a": [0, (lock,)]}], "args[0]['a'][1][0]"),
        (lambda lock: {"k": lock}, "args['k']"),
        (lambda lock: {(1, 2): {3: lock}}, "args[(1, 2)][3]"),
        (lambda lock: Bag(x=lock), "args['x']"),
        (lambda lock: functools.partial(print, lock), "args.args[0]"),
        (lambda lock: ValueError("text", lock), "args.<constructor argument 1>"),
        (lambda lock: lock, "args"),
    ],
)
def test_the_member_is_named_by_its_path_and_its_type(make: Callable[[Any], Any], path: str) -> None:
    assert f": {path} is {LOCK_TYPE} (" in headline(make(threading.Lock()))


def test_a_slot_is_an_attribute_like_any_other() -> None:
    assert "args[0].lock is" in headline((Slotted(),))


def test_a_member_of_a_set_is_shown() -> None:
    assert ".<element <unlocked _thread.lock" in headline({threading.Lock()})


def test_getstate_decides_what_is_looked_at() -> None:
    assert "args.inner[0] is" in headline(Careful())


def test_an_object_that_refuses_by_itself_is_the_culprit() -> None:
    assert "args[0] is" in headline([Refusing()])
    assert "Refusing (stays here)" in headline([Refusing()])


def test_a_closure_variable_is_named_with_its_function_and_line() -> None:
    lock = threading.Lock()

    def train() -> Any:
        return lock

    line = train.__code__.co_firstlineno + 1
    text = headline(train, what="function train")
    assert f"closure variable `lock` of function train, captured at {__file__}:{line} is {LOCK_TYPE}" in text


def test_a_member_inside_a_closure_variable_has_both_names() -> None:
    holder = Holder(lock=threading.Lock())

    def train() -> Any:
        return holder

    text = headline(train, what="function train")
    assert "`holder.lock`, inside closure variable `holder` of function train" in text


def test_a_function_among_the_arguments_says_where_it_is() -> None:
    lock = threading.Lock()
    text = headline([0, lambda: lock])
    assert "closure variable `lock` of function <lambda>" in text
    assert "(reached through args[1])" in text


def script(source: str, name: str) -> Any:
    """A function as it would be in the user's `__main__`: pickled by value, with its globals."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "script.py", "exec"), namespace)
    return namespace[name]


def test_a_global_is_named_with_the_function_that_uses_it() -> None:
    load = script("import sqlite3\ndb = sqlite3.connect(':memory:')\ndef load():\n    return db\n", "load")
    try:
        text = headline(load, what="function load")
        assert "global `db`, used by function load at script.py:4 is a sqlite3.Connection" in text
    finally:
        load.__globals__["db"].close()


def test_a_global_of_a_function_that_is_called_is_found() -> None:
    source = (
        "import threading\nlock = threading.Lock()\n"
        "def low():\n    return lock\ndef top():\n    return low()\n"
    )
    text = headline(script(source, "top"), what="function top")
    assert "global `lock`, used by function low at script.py:4" in text
    assert "(reached through low)" in text


def test_an_attribute_that_shares_a_globals_name_is_not_blamed() -> None:
    source = (
        "import threading\nlock = threading.Lock()\nother = threading.Lock()\n"
        "def run(x):\n    x.lock()\n    return other\n"
    )
    text = explain(script(source, "run"), TypeError("no"), what="function run")
    assert "`other`" in text
    assert "`lock`" not in text


def test_a_default_argument_is_named() -> None:
    source = "import threading\ndef run(a, b=threading.Lock()):\n    return b\n"
    assert "default of argument `b` of function run" in headline(script(source, "run"))


def test_an_attribute_of_a_class_made_in_a_script_is_named() -> None:
    source = "import threading\nclass Job:\n    lock = threading.Lock()\n    def run(self):\n        pass\n"
    assert f"args.lock is {LOCK_TYPE}" in headline(script(source, "Job"))


def test_a_cycle_does_not_hide_the_culprit() -> None:
    first, second = Holder(), Holder()
    first.second, second.first = second, first  # type: ignore[attr-defined]
    second.lock = threading.Lock()  # type: ignore[attr-defined]
    assert "args.second.lock is" in headline(first)


def test_one_bad_element_of_very_many_is_found() -> None:
    values: list[Any] = list(range(50_000))
    values[43_210] = threading.Lock()
    assert "args[43210] is" in headline(values)


def test_a_structure_that_is_too_deep_is_said_to_be() -> None:
    value: Any = None
    for _ in range(100_000):
        value = [value]
    text = explain(value, RecursionError("maximum recursion depth exceeded"), what="args")
    while value:  # taken apart by hand: freeing it in one go would recurse as deep
        value = value.pop()
    assert "nested too deeply" in text


def test_a_search_that_runs_out_of_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "_SEARCH_MAX_S", -1.0)
    text = explain([threading.Lock()], TypeError("no"), what="args")
    assert "args is a list (no)" in text
    assert "The search ended" in text


def test_several_culprits_are_all_named() -> None:
    text = explain([threading.Lock(), 1, (x for x in [1])], TypeError("no"), what="args")
    assert "args[0] is" in text
    assert "Nor can args[2] be pickled, a generator." in text


def test_the_advice_fits_the_type(tmp_path: Path) -> None:
    def advice(value: Any) -> str:
        return explain(value, TypeError("no"), what="value").splitlines()[1]

    assert "inside the task" in advice(threading.Lock())
    assert "list(...)" in advice(x for x in [1])
    with open(tmp_path / "file", "w") as file:
        assert "Send its path" in advice(file)
    connection = sqlite3.connect(":memory:")
    assert "connect inside the task" in advice(connection)
    connection.close()
    assert "register_serializer(Refusing" in advice(Refusing())


def test_a_phrase_is_not_taken_for_a_name() -> None:
    text = explain([threading.Lock()], TypeError("no"), what="the result of train()")
    assert text.startswith("Cannot pickle the result of train(): value[0] is")
    assert "result[0] is" in explain([threading.Lock()], TypeError("no"), what="the result", root="result")


def test_refs_met_on_the_way_are_not_counted_and_the_collector_is_put_back() -> None:
    outer: list[bytes] = []
    refs.collectors.sent = outer
    try:
        explain([Noting(), threading.Lock()], TypeError("no"), what="args")
        assert refs.collectors.sent is outer
        assert outer == []
        assert Noting.met
    finally:
        refs.collectors.sent = None
        Noting.met = False


class Noting:
    """Reports to the collector as a ref does when it is pickled."""

    met = False

    def __reduce__(self) -> tuple[Any, ...]:
        assert refs.collectors.sent is not None
        refs.collectors.sent.append(b"id")
        Noting.met = True
        return (Noting, ())


def test_inspecting_what_can_be_pickled_finds_nothing() -> None:
    out = io.StringIO()
    assert inspect_serializability({"a": 1}, name="table", print_file=out) == (True, set())
    assert out.getvalue() == "table can be pickled.\n"


def test_inspecting_returns_the_member_its_path_and_its_parent() -> None:
    lock = threading.Lock()
    holder = Holder(lock=lock)
    out = io.StringIO()
    good, failures = inspect_serializability(holder, name="holder", print_file=out)
    (failure,) = failures
    assert not good
    assert (failure.obj, failure.path, failure.parent, failure.name) == (
        lock,
        ("holder", "lock"),
        holder,
        "lock",
    )
    assert f"holder.lock is {LOCK_TYPE}" in out.getvalue()
    assert "holder -> lock" in repr(failure)


def test_inspecting_without_a_name_starts_the_path_at_the_first_member() -> None:
    lock = threading.Lock()

    def train() -> Any:
        return lock

    _, failures = inspect_serializability(train, print_file=io.StringIO())
    assert [(f.path, f.parent) for f in failures] == [(("lock",), train)]
    _, failures = inspect_serializability(lock, print_file=io.StringIO())
    assert [(f.path, f.parent) for f in failures] == [((), None)]


def test_inspecting_stops_at_the_depth_it_was_given() -> None:
    inner = [threading.Lock()]
    _, failures = inspect_serializability([inner], depth=1, print_file=io.StringIO())
    assert [f.obj for f in failures] == [inner]


def test_inspecting_prints_to_standard_output_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    inspect_serializability(3)
    assert capsys.readouterr().out == "3 can be pickled.\n"
