"""docs/gallery.md: what the commands that look at a session print, of real programs with real troubles.

``python -m tests.docs.gallery`` plays the scenes and writes the page. Ids, pids, times and paths differ from run to run
and are replaced. `test_gallery` plays one scene, and holds the page against the scenes and commands that there are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"

_BEGIN = """import os, signal, sys, time
import sundog as ray

ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False)
"""
_END = """
print("ready", flush=True)
sys.stdin.read()
"""
_HEAD = """\
# Gallery

What the commands print, of small programs with real troubles. `python -m tests.docs.gallery` makes the page; ids, pids
and paths are shortened. Each command also takes `--json`, and `--session` for a session that has ended.

![Twenty tasks](images/timeline-20.png)

*`sundog timeline --html`: twenty tasks.*

![A hundred thousand tasks](images/timeline-100000.png)

*The same page with 100,000 tasks.*
"""


@dataclass(frozen=True)
class Scene:
    """A program with a trouble, and the commands that look at it while it runs (`live`) or afterwards."""

    title: str
    program: str
    commands: tuple[tuple[str, ...], ...]
    live: bool = True


SCENES = (
    Scene(
        "A task that can never run",
        """
@ray.remote(num_gpus=4)
def train():
    return 1

ref = train.remote()
time.sleep(0.5)
""",
        (("why",), ("list", "tasks", "-f", "name=train")),
    ),
    Scene(
        "A straggler",
        """
@ray.remote
def resize(number):
    time.sleep(60 if number == 19 else 0.01)

refs = [resize.remote(number) for number in range(20)]
ray.wait(refs, num_returns=19)
time.sleep(1.5)
""",
        (("why",), ("why", "resize"), ("summary", "tasks")),
    ),
    Scene(
        "An argument that failed",
        """
@ray.remote(max_retries=0)
def load(path):
    return open(path).read()

@ray.remote
def count(text):
    return len(text)

try:
    ray.get(count.remote(load.remote("no-such-file")))
except Exception:
    pass
""",
        (
            ("why", "count"),
            ("list", "tasks", "-f", "state=FAILED"),
            ("sql", "select name, state, count(*) from tasks group by 1, 2"),
        ),
        live=False,
    ),
    Scene(
        "A task that was killed for its memory",
        """
@ray.remote(memory=200 * 2**20, enforce_memory=True, max_retries=0)
def hoard():
    kept = []
    while True:
        kept.append(bytearray(10 * 2**20))
        time.sleep(0.02)

try:
    ray.get(hoard.remote())
except Exception:
    pass
""",
        (("why", "hoard"), ("list", "workers", "-f", "exit_type=NODE_OUT_OF_MEMORY")),
        live=False,
    ),
    Scene(
        "A leak",
        """
class Cache:
    def __init__(self):
        self.seen = {}

    def load(self, number):
        self.seen[number] = ray.put(bytearray(2 * 2**20))

cache = Cache()
for number in range(8):
    cache.load(number)
""",
        (("memory", "--group-by", "stack-trace"), ("memory", "--why", "-n", "1")),
    ),
    Scene(
        "A deadlock",
        """
@ray.remote
class Account:
    def link(self, other):
        self.other = other

    def pay(self):
        return ray.get(self.other.receive.remote())

    def receive(self):
        return 1

one, two = Account.remote(), Account.remote()
ray.get([one.link.remote(two), two.link.remote(one)])
try:
    ray.get([one.pay.remote(), two.pay.remote()])
except Exception:
    pass
""",
        (("why", "Account.pay"),),
        live=False,
    ),
    Scene(
        "A program that was killed",
        """
@ray.remote
def simulate(step):
    time.sleep(0.01 if step < 40 else 60)

refs = [simulate.remote(step) for step in range(42)]
ray.wait(refs, num_returns=40)
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
""",
        (("why",), ("summary", "tasks"), ("timeline", "-o", "timeline.json"), ("session", "list")),
        live=False,
    ),
)


def play(scene: Scene, folder: str) -> list[tuple[str, str]]:
    """Run a scene; returns what each of its commands printed."""
    environment = {**os.environ, "SUNDOG_temp_dir": folder, "TMPDIR": folder, "PYTHONWARNINGS": "ignore"}
    text = _BEGIN + scene.program + (_END if scene.live else "")
    program = subprocess.Popen(
        [sys.executable, "-c", text],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    assert program.stdout is not None and program.stdin is not None
    try:
        if scene.live:
            program.stdout.readline()
        else:
            program.wait()
        return [("sundog " + _typed(each), _run(each, environment, folder)) for each in scene.commands]
    finally:
        program.stdin.close()
        program.wait()
        program.stdout.close()


def _typed(arguments: tuple[str, ...]) -> str:
    return " ".join(f'"{each}"' if " " in each else each for each in arguments)


def _run(arguments: tuple[str, ...], environment: dict[str, str], folder: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "sundog.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return shortened(ended.stdout, folder)


def shortened(text: str, folder: str, *, columns: bool = False) -> str:
    """A text without what differs from run to run; `columns`: those of tables stay below each other."""
    text = text.replace(folder, "/tmp/sundog")
    text = re.sub(r"session_[\d_-]+_[0-9a-f]{8}", "session_2026…", text)
    text = re.sub(r"\b([0-9a-f]{6})[0-9a-f]{10,42}\b", r"\1…", text)
    text = re.sub(r"f{40}\d{8}", "ffffff…", text)
    if columns:
        return "\n".join(line.rstrip() for line in text.splitlines())
    return "\n".join(re.sub(r"(?<=\S)  +", "  ", line).rstrip() for line in text.splitlines())


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for scene in SCENES:
        with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder:
            told = play(scene, folder)
        shown = "".join(f"$ {command}\n{output}\n\n" for command, output in told).rstrip()
        parts.append(
            f"## {scene.title}\n\n```python\n{scene.program.strip()}\n```\n\n```console\n{shown}\n```\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
