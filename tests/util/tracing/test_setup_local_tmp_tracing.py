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
