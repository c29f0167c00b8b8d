"""The pictures of the timeline page: ``python -m tests.docs.pictures`` runs two programs and photographs their pages.

Twenty tasks and a hundred thousand, each of a real session, in Chromium without a window, as the tests of the page use
it. ``make timeline-pictures`` does the same. People look at the pictures; a test holds that there is one of each.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
SIZE = (1400, 420)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--virtual-time-budget=8000",
)
_BEGIN = """import time
import sundog as ray

ray.init(num_cpus=3, logging_level="ERROR", log_to_driver=False)
"""


@dataclass(frozen=True)
class Picture:
    """A picture of the page of one program."""

    name: str
    tasks: int
    program: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return FOLDER / self.name


PICTURES = (
    Picture(
        "timeline-20.png",
        20,
        """
@ray.remote
def load(number):
    time.sleep(0.12)
    return number

@ray.remote
def resize(image):
    time.sleep(0.2)
    return image

@ray.remote(max_retries=0)
def check(image):
    time.sleep(0.1)
    raise ValueError(image)

@ray.remote
class Store:
    def add(self, image):
        time.sleep(0.05)

store = Store.remote()
ray.get([store.add.remote(resize.remote(load.remote(number))) for number in range(6)])
ray.wait([check.remote(0)])
time.sleep(0.6)
""",
    ),
    Picture(
        "timeline-100000.png",
        100_000,
        """
@ray.remote
def parse(number):
    return sum(range(200))

@ray.remote
def score(number):
    return sum(range(2000))

@ray.remote(max_retries=0)
def publish(batch):
    time.sleep(0.15)
    if batch == 6:
        raise ValueError(batch)

for batch in range(10):
    refs = [(score if number % 5 == 0 else parse).remote(number) for number in range(9_999)]
    published = publish.remote(batch)
    ray.get(refs)
    ray.wait([published])
""",
    ),
)


def make(picture: Picture, chromium: str) -> None:
    """Run its program, write its page, and photograph that."""
    with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder:
        environment = {**os.environ, "SUNDOG_temp_dir": f"{folder}/s", "PYTHONWARNINGS": "ignore"}
        program, page = Path(folder, "images.py"), f"{folder}/page.html"
        program.write_text(_BEGIN + picture.program, encoding="utf-8")
        subprocess.run([sys.executable, program], env=environment, check=True)
        command = (sys.executable, "-m", "sundog.cli", "timeline", "--html", "-o", page)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        photograph(chromium, page, picture.path, folder)


def photograph(chromium: str, page: str, picture: Path, folder: str) -> None:
    """Have a browser show a page, and keep what it shows; its own files go to a folder."""
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    profile = f"--user-data-dir={folder}/profile"
    command = [chromium, *_FLAGS, size, profile, f"--screenshot={picture}", f"file://{page}"]
    subprocess.run(command, check=True, capture_output=True)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG, as its header says."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", f"{picture} is no PNG"
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def main() -> int:
    """Make all of them."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("chromium is needed: make browser installs it", file=sys.stderr)
        return 1
    for picture in PICTURES:
        make(picture, chromium)
        print(f"wrote {picture.path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
