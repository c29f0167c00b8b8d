"""The picture of a flame graph in the README: `python -m tests.profiling.picture docs/images/flame.png`.

Owns the making: a small program runs under `sundog profile run` in a folder of its own, and the page that it wrote is
opened in chromium, without a window, and photographed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """import time

import sundog as ray


def spend(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(200))


def decode(image):
    spend(0.10)


def sharpen(image):
    spend(0.06)


def resize(image):
    spend(0.22)
    sharpen(image)


@ray.remote
def thumbnail(image):
    decode(image)
    resize(image)


@ray.remote
def count_words(text):
    spend(0.15)


@ray.remote
class Index:
    def add(self, image):
        self.tokens(image)
        spend(0.05)

    def tokens(self, image):
        spend(0.12)


ray.init(num_cpus=2)
index = Index.remote()
work = [thumbnail.remote(n) for n in range(6)] + [count_words.remote(n) for n in range(4)]
ray.get(work + [index.add.remote(n) for n in range(5)])
"""
WIDTH, HEIGHT = 1100, 330


def main(file: str) -> int:
    """Draw it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("chromium is not installed: make browser", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="sd-picture-", dir="/tmp"))
    try:
        script = folder / "images.py"
        script.write_text(PROGRAM)
        environ = {**os.environ, "SUNDOG_temp_dir": str(folder / "s")}
        shown = subprocess.run(
            [sys.executable, "-m", "sundog.cli", "profile", "run", str(script)],
            check=True, capture_output=True, text=True, env=environ, timeout=300,
        ).stdout  # fmt: skip
        page = re.findall(r"Flame graph: (\S+)", shown)[0]
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={folder / 'browser'}", f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={Path(file).resolve()}", f"file://{page}",
            ],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
