"""Programs that end while a user is at the prompt of one of their tasks."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.integration.terminals import PROMPT, terminal

PROGRAM = """
    import os, time
    import sundog as ray

    @ray.remote
    def stands():
        breakpoint()
        return 1

    ray.init(num_cpus=1)
    ref = stands.remote()
    while not os.path.exists("go"):
        time.sleep(0.05)
"""


def test_ctrl_c_ends_the_wait_for_a_user_at_a_prompt(tmp_path: Path, leak_check: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    with subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            with terminal("debug", "--wait", "120") as at:
                at.see(PROMPT)
                (tmp_path / "go").touch()
                while "Ctrl-C ends the wait" not in process.stderr.readline():
                    assert process.poll() is None
                process.send_signal(signal.SIGINT)
                assert process.wait(120) == 0
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()
