"""How the zygote finds out what it may load: each verdict in a process of its own, as in a probe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.wire.zygote import Learn, Learned
from sundog.worker import learner
from sundog.worker.learner import Learner

BODIES = {
    "safe": ("VALUE = 1", learner._SAFE),
    "broken": ("raise RuntimeError", learner._FAILED),
    "threads": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        learner._THREADS,
    ),
    "connected": ("import socket\nPAIR = socket.socketpair()", learner._DESCRIPTORS),
    "grpc": ("", learner._UNSAFE),
    "others": ("import stranger", learner._OTHERS),
    "inventive": (
        "import sys, types\nmade = sys.modules['made_up'] = types.ModuleType('made_up')\nmade.__file__ = '_made.py'",
        learner._SAFE,
    ),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("limiter", [False, True])
def test_a_probe_finds_out_what_cannot_be_forked(tmp_path: Path, name: str, limiter: bool) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    if limiter:  # what the probe loads itself is no reason to refuse what it was asked about
        (folder / "threadpoolctl.py").write_text("", encoding="utf-8")
    (folder / f"{name}.py").write_text(BODIES[name][0], encoding="utf-8")
    (folder / "stranger.py").write_text("", encoding="utf-8")
    code = (
        "from sundog.worker.learner import verdict; from sundog.wire.zygote import Learn; import os, sys; "
        f"os._exit(verdict(Learn([{str(folder)!r}], [{name!r}], [{name!r}])))"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert ended.returncode == BODIES[name][1]


def test_what_was_tried_is_loaded_at_the_next_quiet_moment(tmp_path: Path) -> None:
    (tmp_path / "lesson_safe.py").write_text("", encoding="utf-8")
    told: list[Learned] = []
    pupil = Learner(told.append, lambda: None)
    assert not pupil.busy
    pupil.ask(Learn([str(tmp_path)], ["lesson_safe"], ["lesson_safe"]))
    assert pupil.busy
    pupil.use_quiet()
    assert not pupil.busy
    pid, status = os.waitpid(pupil._probe, 0)
    assert pupil.reaped(pid, status)
    assert pupil.busy and not told
    pupil.use_quiet()
    assert "lesson_safe" in sys.modules
    assert [(each.packages, each.reason) for each in told] == [(["lesson_safe"], "")]
    assert str(tmp_path) not in sys.path
    assert not pupil.reaped(pid, status)


def test_what_cannot_be_learned_is_told_with_the_reason(tmp_path: Path) -> None:
    told: list[Learned] = []
    pupil = Learner(told.append, lambda: None)
    pupil.ask(Learn([str(tmp_path)], ["lesson_missing"], ["lesson_missing"]))
    pupil.use_quiet()
    assert pupil.reaped(*os.waitpid(pupil._probe, 0))
    assert not pupil.busy
    assert told == [Learned(["lesson_missing"], 0.0, 0, "its import fails outside of a worker")]


ONCE = """
import sys
from sundog.worker.learner import Learner
from sundog.wire.zygote import Learn

told = []
goes_on = Learner(told.append, lambda: None).load_at_once(Learn([{folder!r}], [{name!r}], [{name!r}], now=True))
print(goes_on, told[0].reason == "", {name!r} in sys.modules)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("safe", "True True True"),
        ("broken", "False False False"),
        ("threads", "False False True"),
        ("connected", "False False True"),
        ("grpc", "True False False"),  # not even tried
    ],
)
def test_what_is_needed_at_once_is_loaded_without_a_probe(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / f"{name}.py").write_text(BODIES[name][0], encoding="utf-8")
    (tmp_path / "threadpoolctl.py").write_text("", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", ONCE.format(folder=str(tmp_path), name=name)],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert ended.stdout.split("\n")[0] == said
