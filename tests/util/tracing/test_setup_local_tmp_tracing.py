"""The hook to begin with: a file of spans for each process, never through a link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from opentelemetry import trace
from sundog.util.tracing import setup_local_tmp_tracing as hook
hook.spans_dir = sys.argv[1] + "/spans/"
os.makedirs(hook.spans_dir)
os.symlink(sys.argv[1] + "/elsewhere", hook.spans_dir + f"{os.getpid()}.txt")
hook.setup_tracing()
with trace.get_tracer("test").start_as_current_span("one"):
    pass
"""


def test_each_span_is_a_line_of_json(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
    (file,) = (tmp_path / "spans").iterdir()
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["name"] == "one"
    assert not (tmp_path / "elsewhere").exists() and file.stat().st_mode & 0o77 == 0


TRAPPED = """
import os, sys
from sundog.util.tracing import setup_local_tmp_tracing as hook
place = sys.argv[1]
hook.spans_dir = place + "/spans/"
os.mkdir(place + "/precious")
with open(f"{place}/precious/{os.getpid()}.txt", "w") as file:
    file.write("mine")
os.symlink("precious", place + "/spans")
hook.setup_tracing()
with open(f"{place}/precious/{os.getpid()}.txt") as file:
    print(file.read())
"""


def test_a_link_in_the_folders_place_is_not_followed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAPPED, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "mine"
    (private,) = tmp_path.glob("spans-*")
    assert len(list(private.iterdir())) == 1 and private.stat().st_mode & 0o77 == 0
    assert f"Spans go to {private}" in done.stderr and "it is a link" in done.stderr
