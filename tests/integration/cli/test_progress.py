"""`progress()` and `sundog run --progress` with real tasks: exact counts at the end, bars on a real terminal."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pexpect

from tests.integration.terminals import Screen

PROGRAM = """
import ray
ray.init(num_cpus=2)

@ray.remote
def work(i):
    if i == 7:
        raise ValueError(i)

refs = [work.remote(i) for i in range(200)]
ray.wait(refs, num_returns=len(refs))
print("the program's own line")
"""


def test_only_what_ends_within_the_block_is_counted_and_exactly(ray: ModuleType) -> None:
    @ray.remote
    def work(i: int) -> int:
        return 1 // (i % 50)

    @ray.remote
    def before() -> None:
        return None

    ray.get([before.remote() for _ in range(3)] + [work.remote(1)])
    out = io.StringIO()
    with ray.util.progress(file=out, interval_s=0.05):
        refs = [work.remote(i) for i in range(1000)]
        ray.wait(refs, num_returns=1000)
    assert out.getvalue() == "work: 980 of 1000 done, 20 failed\n"


def test_run_shows_lines_when_piped_and_bars_on_a_terminal(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "sundog.cli", "run", "--progress", str(script)]
    piped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert piped.stdout == "the program's own line\n"
    assert "work: 199 of 200 done, 1 failed\n" in piped.stderr
    terminal: Any = Screen(command, (24, 100))
    try:
        terminal.expect("━━━━")
        terminal.expect("199/200  1 failed")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 0
    finally:
        terminal.close(force=True)
