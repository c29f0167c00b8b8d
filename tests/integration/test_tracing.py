"""Spans of tasks, actors and their calls: in one trace from the submitter to the innermost task, from every process."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.observe import spans
from sundog.owner.tasks import Tasks
from tests.integration.gates import await_true

HOOK = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

class Lines:
    def write(self, text):
        with open(os.path.join({folder!r}, f"{{os.getpid()}}.json"), "a") as file:
            file.write(text)

    def flush(self):
        pass

def setup_tracing():
    exporter = ConsoleSpanExporter(out=Lines(), formatter=lambda span: span.to_json(indent=None) + "\\n")
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

def fail():
    raise OSError("no collector")
"""


def _read(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with hooks, which every process of a session can import."""
    (tmp_path / "tracing_hook_of_test.py").write_text(HOOK.format(folder=str(tmp_path)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tracing_hook_of_test", raising=False)
    return "tracing_hook_of_test"


@sundog.remote
def inner(number: int) -> int:
    return number + 1


@sundog.remote
def outer(number: int) -> int:
    return sundog.get(inner.remote(number))


@sundog.remote(max_retries=0)
def failing() -> None:
    raise KeyError("gone")


@sundog.remote
def counted(most: int) -> Any:
    yield from range(most)


@sundog.remote
class Adder:
    def __init__(self, start: int) -> None:
        self.total = start

    def add(self, number: int) -> int:
        self.total += self._own(number)
        return self.total

    def _own(self, number: int) -> int:
        return number


@sundog.remote
class Later:
    async def double(self, number: int) -> int:
        return 2 * number


def test_work_is_in_the_trace_of_who_submitted_it_and_without_a_hook_there_is_none(
    hook: str, tmp_path: Path
) -> None:
    plain = Tasks.submit
    sundog.init(num_cpus=2, log_to_driver=False, _tracing_startup_hook=f"{hook}:setup_tracing")
    assert sundog.get(outer.remote(1)) == 2
    adder, later = Adder.remote(10), Later.remote()
    assert sundog.get([adder.add.remote(5), later.double.remote(4)]) == [15, 8]
    assert [sundog.get(each) for each in counted.remote(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        sundog.get(failing.remote())
    names = {
        f"{__name__}.{each} {end}"
        for each in ("outer", "inner", "counted", "failing")
        for end in ("ray.remote", "ray.remote_worker")
    } | {
        f"{each} {end}"
        for each in ("Adder.__init__", "Adder.add", "Later.__init__", "Later.double")
        for end in ("ray.remote", "ray.remote_worker")
    }

    def found() -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in _read(tmp_path)}

    await_true(lambda: found().keys() >= names, "the spans of all processes")
    rows = found()
    assert rows.keys() == names, "Adder._own is called within the actor, and makes none"
    steps = [rows[f"{__name__}.{each}"] for each in (
        "outer ray.remote", "outer ray.remote_worker", "inner ray.remote", "inner ray.remote_worker"
    )]  # fmt: skip
    assert len({row["context"]["trace_id"] for row in steps}) == 1
    for parent, child in itertools.pairwise(steps):
        assert child["parent_id"] == parent["context"]["span_id"]
    assert (steps[0]["kind"], steps[1]["kind"]) == ("SpanKind.PRODUCER", "SpanKind.CONSUMER")
    call = rows["Adder.add ray.remote_worker"]["attributes"]
    assert (call["ray.remote"], call["ray.actor_class"], call["ray.actor_method"]) == (
        "actor",
        "Adder",
        "add",
    )
    assert (
        call["ray.actor_id"] == adder._actor_id.hex() and call["ray.pid"] != steps[0]["attributes"]["ray.pid"]
    )
    assert rows[f"{__name__}.failing ray.remote_worker"]["status"]["status_code"] == "ERROR"
    sundog.shutdown()
    assert Tasks.submit is plain
    sundog.init(num_cpus=1, log_to_driver=False)
    assert sundog.get(outer.remote(2)) == 3
    sundog.shutdown()
    assert len(_read(tmp_path)) == len(names)


@pytest.mark.parametrize(
    ("function", "words"),
    [("fail", "failed in process .* OSError: no collector"), ("none", "failed in process .*AttributeError")],
)
def test_a_hook_that_fails_ends_the_session_that_it_was_for(hook: str, function: str, words: str) -> None:
    with pytest.raises(spans.TracingHookError, match=words):
        sundog.init(num_cpus=1, _tracing_startup_hook=f"{hook}:{function}")
    assert not sundog.is_initialized()


def test_what_is_no_hook_and_a_missing_extra_are_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match="is written 'module:function'"):
        sundog.init(num_cpus=1, _tracing_startup_hook="setup_tracing")
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match=r"pip install 'sundog\[otel\]'"):
        sundog.init(num_cpus=1, _tracing_startup_hook="a:b")
    assert not sundog.is_initialized()
