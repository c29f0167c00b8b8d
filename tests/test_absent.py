"""Every public name of Ray is here, or is said to be absent, with a reason; nothing that is here is called absent."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog import absent, cross_language, experimental, util

LINES = [
    line.partition(":")
    for line in (Path(__file__).parent / "ray_names.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
NAMES = {"" if path == "." else path: names.split() for path, _, names in LINES}
# Modules that another part of the project answers for, or will.
ELSEWHERE = ("util.state", "experimental.state", "job_submission", "cluster_utils")
PRESENT = [path for path in NAMES if absent.reason(path) is None and not path.startswith(ELSEWHERE)]


def module(path: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Not import_module's answer alone: a function may stand in the place of its module.
        importlib.import_module(f"sundog.{path}" if path else "sundog")
    return sys.modules[f"sundog.{path}" if path else "sundog"]


@pytest.mark.parametrize("path", PRESENT)
def test_every_public_name_of_ray_is_here_or_has_a_reason_not_to_be(path: str) -> None:
    found, excused = module(path), absent.NAMES.get(path, {})
    missing = [name for name in NAMES[path] if name not in excused and not hasattr(found, name)]
    assert not [name for name in missing if absent.reason(f"{path}.{name}".lstrip(".")) is None]


def _has(where: Any, name: str) -> bool:
    try:
        return hasattr(where, name)
    except ImportError:  # that says why it is absent
        return False


@pytest.mark.parametrize("path", [path for path in absent.NAMES if path in PRESENT])
def test_what_is_called_absent_is_absent(path: str) -> None:
    found = module(path)
    # A module of ours that happens to have the name, such as the worker's program, is no answer to Ray's name.
    ours = {name for name in absent.NAMES[path] if f"{found.__name__}.{name}" in sys.modules}
    assert [name for name in absent.NAMES[path] if _has(found, name) and name not in ours] == []


def test_touching_what_is_absent_says_why() -> None:
    for where, name, words in (
        (sundog, "data", "dataset library"),
        (sundog, "client", "Ray Client"),
        (util, "collective", "NCCL"),
        (experimental, "channel", "compiled graphs"),
    ):
        with pytest.raises(AttributeError, match=words):
            getattr(where, name)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import sundog.serve.llm", "language-model library"),
        ("from sundog.serve.llm import LLMConfig", "language-model library"),
        ("from sundog.serve import llm", "language-model library"),
        ("from sundog.serve.task_consumer import task_consumer", "task consumers"),
        ("from sundog.serve.schema import TaskProcessorConfig", "task consumers"),
        ("from sundog.serve.autoscaling_policy import PrometheusScalar", "Prometheus"),
    ],
)
def test_an_import_of_what_serve_has_not_says_why(statement: str, words: str) -> None:
    with pytest.raises(ImportError, match=words):
        exec(statement, {})


def test_an_import_from_serve_of_what_nobody_has_is_refused_as_in_any_package() -> None:
    for statement in ("import sundog.serve.nothing", "from sundog.serve.schema import nothing"):
        with pytest.raises(ImportError, match="nothing"):
            exec(statement, {})
    assert importlib.util.find_spec("sundog.serve.nothing") is None


def test_functions_of_other_languages_are_refused_with_their_name() -> None:
    with pytest.raises(NotImplementedError, match=r"Main\.run is written in Java"):
        cross_language.java_function("Main", "run")
