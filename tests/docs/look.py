"""The outputs of docs/howto/look.md, from programs that are played: ``python -m tests.docs.look`` writes them anew.

The page has places ``<!-- scene NAME -->`` … ``<!-- end -->``; what stands between is the scene's program and what its
commands print. Ids, pids and paths are shortened. `test_look` plays one scene, and holds the page against the scenes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.docs.gallery import ROOT, shortened

PAGE = ROOT / "docs" / "howto" / "look.md"
_PATIENCE_S = 120.0
_TOP = "top"  # not a command that prints: its screen is taken

_STACK = """\
import asyncio, re, time
import sundog as ray

@ray.remote
def resize(image):
    time.sleep(60)

@ray.remote
def match(text):
    return re.match(r"(a+)+$", text)        # C code that never lets Python run

@ray.remote
class Fetcher:
    async def fetch(self, url):
        return await self.read(url)

    async def read(self, url):
        await asyncio.sleep(60)

def main():
    ray.init(num_cpus=4)
    fetcher = Fetcher.options(name="fetcher").remote()
    refs = [fetcher.fetch.remote(url) for url in range(100)]
    refs += [resize.remote(image) for image in range(2)]
    refs += [match.remote("a" * 64 + "b")]
    ray.get(refs)

main()
"""
_MEMORY = """\
import time
import numpy as np
import sundog as ray

@ray.remote
class Trainer:
    def __init__(self):
        self.batches = []

    def step(self, batch):
        self.batches.append(batch)      # a leak: every batch is kept

@ray.remote
def pause():
    time.sleep(60)

cache = {}
trainer = Trainer.remote()

def main():
    weights = ray.put(np.zeros(4_000_000))
    for epoch in range(3):
        cache[epoch] = ray.put(np.ones(1_000_000))
        ray.get(trainer.step.remote(cache[epoch]))
    cache.clear()
    ray.get(pause.remote())

main()
"""
_BUSY = """\
import time
import sundog as ray

@ray.remote(max_retries=0)
def resize(image):
    time.sleep(0.2)
    if image % 20 == 0:
        raise ValueError(image)

@ray.remote(num_cpus=2)
def train(model):
    time.sleep(60)

@ray.remote
class Store:
    def add(self, image):
        time.sleep(0.05)

ray.init(num_cpus=4)
store = Store.options(name="store").remote()
models = [train.remote(model) for model in range(3)]
refs = [store.add.remote(image) for image in range(2000)] + [resize.remote(image) for image in range(2000)]
ray.wait(refs, num_returns=len(refs))
"""
_LOGS = """\
import json
import sundog as ray

@ray.remote
class Greeter:
    def __init__(self):
        self.count = 0

    def greet(self):
        self.count += 1
        print("hello", self.count)
        return self.count

@ray.remote(max_retries=1, retry_exceptions=True)
def load(greeter, path):
    number = ray.get(greeter.greet.remote())
    print(json.dumps({"level": "info", "try": number}))
    if number == 1:
        raise OSError(path)

anna = Greeter.options(name="anna").remote()
ray.get(load.remote(anna, "a.csv"))
"""


@dataclass(frozen=True)
class Scene:
    """A program, when it is looked at, and the commands that look."""

    file: str
    program: str
    commands: tuple[tuple[str, ...], ...]
    running: int = 0  # looked at when so many tasks run; 0: when it has ended
    shown: bool = True  # the program is part of the page


SCENES = {
    "stack": Scene("train.py", _STACK, (("stack",),), running=103),
    "memory": Scene("model.py", _MEMORY, (("memory", "--why", "-n", "3"),), running=1),
    "top": Scene("busy.py", _BUSY, ((_TOP,),), running=3, shown=False),
    "logs": Scene(
        "hello.py",
        _LOGS,
        (("logs", "task", "{load}"), ("logs", "actor", "anna", "--tail", "1"), ("logs", "job", "01000000")),
    ),
}


# ---------------------------------------------------------------------- playing
def play(scene: Scene) -> str:
    """What a person sees: the commands, and what they print."""
    with (
        tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder,
        _begun(scene, folder) as environment,
    ):
        shown = []
        for command in scene.commands:
            words = tuple(_filled(each, environment, folder) for each in command)
            if command == (_TOP,):
                return _cleaned(_screen(environment["SUNDOG_temp_dir"]), folder)
            shown.append(f"$ sundog {' '.join(words)}\n" + _run(words, environment, folder))
        return _cleaned("".join(shown), folder)


@contextmanager
def _begun(scene: Scene, folder: str) -> Iterator[dict[str, str]]:
    """Its program, run until it is to be looked at; ended in the end."""
    environment = {**os.environ, "SUNDOG_temp_dir": f"{folder}/s", "PYTHONWARNINGS": "ignore"}
    Path(folder, scene.file).write_text(scene.program, encoding="utf-8")
    program = subprocess.Popen(
        [sys.executable, scene.file],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not scene.running:
            assert program.wait(_PATIENCE_S) == 0
        deadline = time.monotonic() + _PATIENCE_S
        while scene.running and _running(environment, folder) < scene.running:
            assert program.poll() is None and time.monotonic() < deadline, f"{scene.file} did not come so far"
            time.sleep(0.2)
        yield environment
    finally:
        program.kill()
        program.wait()


def _running(environment: dict[str, str], folder: str) -> int:
    words = ("list", "tasks", "-f", "state=RUNNING", "--limit", "1000", "--json")
    ended = _command(words, environment, folder)
    return len(json.loads(ended.stdout)) if ended.returncode == 0 else 0


def _command(
    words: tuple[str, ...], environment: dict[str, str], folder: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sundog.cli", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def _run(words: tuple[str, ...], environment: dict[str, str], folder: str) -> str:
    ended = _command(words, environment, folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _filled(word: str, environment: dict[str, str], folder: str) -> str:
    """A word in which {f} stands for the id of a task of f."""
    found = re.fullmatch(r"\{(\w+)\}", word)
    if found is None:
        return word
    rows = json.loads(_run(("list", "tasks", "-f", f"name={found[1]}", "--json"), environment, folder))
    return str(rows[0]["task_id"])


def _screen(temp_dir: str) -> str:
    """What `sundog top` shows after some seconds, in a terminal of 140 columns."""
    from sundog.cli.top_screen import Top
    from sundog.observe.sessions import open_session

    async def look() -> str:
        [path] = [str(each) for each in Path(temp_dir).glob("session_2*")]
        app = Top(open_session(path), 0.5)
        async with app.run_test(size=(140, 22)) as pilot:
            await pilot.pause(4.0)  # rates need some looks
            strips = app.screen._compositor.render_strips()
            return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    return asyncio.run(look())


def _cleaned(text: str, folder: str) -> str:
    """Without what differs from run to run, and without this machine's places."""
    library = sysconfig.get_paths()["stdlib"]
    text = text.replace(f"{folder}/", "").replace(library, "/usr/lib/python3.11")
    text = re.sub(r"worker-([0-9a-f]{6})[0-9a-f]{10}", r"worker-\1…", text)
    return re.sub(r"\n{3,}", "\n\n", shortened(text, folder, columns=True)).rstrip()


# ---------------------------------------------------------------------- the page
def page(text: str) -> str:
    """The page with its scenes played anew."""
    for name, scene in SCENES.items():
        program = f"```python\n{scene.program.rstrip()}\n```\n\n" if scene.shown else ""
        kind = "text" if scene.commands == ((_TOP,),) else "console"
        played = f"{program}```{kind}\n{play(scene)}\n```"
        place = re.compile(rf"<!-- scene {name} -->\n.*?\n<!-- end -->", re.DOTALL)
        assert place.search(text), f"the page has no place for the scene {name}"
        new = f"<!-- scene {name} -->\n{played}\n<!-- end -->"
        text = new.join(place.split(text))
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
