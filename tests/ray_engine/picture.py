"""The picture of a cluster that scales: ``python -m tests.ray_engine.picture`` makes docs/images/autoscaling.png.

Runs the program of the test on a cluster whose autoscaler starts nodes, and photographs its timeline in Chromium. Needs
Ray: `make autoscaling-picture`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pictures import FOLDER, photograph
from tests.on_ray import autoscaling

PROGRAM = Path(__file__).parent / "on_cluster" / "programs" / "rush.py"
PICTURE = FOLDER / "autoscaling.png"


def main() -> int:
    """Make it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("chromium is needed: make browser installs it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder, autoscaling(2) as address:
        environ = {
            **os.environ,
            "SUNDOG_TEMP_DIR": f"{folder}/s",
            "RAY_ADDRESS": address,
            "SUNDOG_SHIP_TO_NODES": "0",
        }
        done = subprocess.run(
            [sys.executable, PROGRAM], env=environ, input="\n", stdout=subprocess.PIPE, text=True, check=True
        )
        session = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)["session"]
        page = f"{folder}/page.html"
        command = (sys.executable, "-m", "sundog.cli", "timeline", "--html", "-o", page, "--session", session)
        subprocess.run(
            command, env={**environ, "SUNDOG_ENGINE": "local"}, check=True, stdout=subprocess.DEVNULL
        )
        photograph(chromium, page, PICTURE, folder)
    print(f"wrote {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
