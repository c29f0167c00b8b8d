"""The first milliseconds of node and zygote."""

from __future__ import annotations

import json
import subprocess
import sys

_LOOK = """
import json, pickle, signal, sys
from sundog.node import launch
from sundog.system import descriptors, journal, orphans
launch._import_shared()
before = {*sys.modules}
import %s
print(json.dumps(sorted({*sys.modules} - before)))
"""


def imported_by(modules: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", _LOOK % modules], stdout=subprocess.PIPE, check=True)
    return {*json.loads(done.stdout)}


def test_what_node_and_zygote_both_need_is_imported_before_they_are_two() -> None:
    node = imported_by("sundog.node.program, sundog.store.folders")
    zygote = imported_by("sundog.worker.zygote, sundog.worker.process")
    assert len(node & zygote) <= 5, sorted(node & zygote)
