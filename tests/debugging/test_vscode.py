"""What an editor is told."""

from __future__ import annotations

import json

from sundog.debugging import vscode


def test_the_launch_configuration_is_what_vs_code_reads() -> None:
    entry = json.loads(vscode.launch_configuration(4711, "f"))
    assert entry["request"] == "attach" and entry["connect"] == {"host": "127.0.0.1", "port": 4711}
    assert not vscode.is_attached()
