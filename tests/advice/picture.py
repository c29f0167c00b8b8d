"""The picture of the doctor's report in the README: `python -m tests.advice.picture docs/images/doctor.svg`.

Owns the making: a small program with two faults runs in a folder of its own, is examined, and the report is drawn as a
terminal shows it. The picture loads nothing from elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from sundog.advice.doctor import examine_session
from sundog.observe.sessions import open_session
from sundog.plain import replaced

PROGRAM = """import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def resize(image):
    time.sleep(0.2)
    return image


@ray.remote
class Index:
    def add(self, image):
        time.sleep(0.1)


small = []
for image in range(8):
    small.append(ray.get(resize.remote(image)))

index = Index.remote()
ray.get([index.add.remote(image) for image in small])
"""
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def main(file: str) -> int:
    """Draw it."""
    folder = Path(tempfile.mkdtemp(prefix="sd-picture-", dir="/tmp"))
    try:
        script = folder / "images.py"
        script.write_text(PROGRAM)
        place = str(folder / "s")
        environ = {**os.environ, "SUNDOG_temp_dir": place}
        subprocess.run([sys.executable, str(script)], check=True, capture_output=True, env=environ)
        report = examine_session(open_session(None, place))
        report.session = "session_2026-01-01_images"
        report.findings = [replaced(each, file=Path(each.file).name) for each in report.findings]
        with open(os.devnull, "w") as nowhere:
            console = Console(record=True, width=118, file=nowhere, force_terminal=True, highlight=False)
            console.print(report.rich())
        Path(file).write_text(_FONTS.sub("", console.export_svg(title="sundog doctor")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
