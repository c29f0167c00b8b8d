"""The timeline's page: its data, and how it looks and answers in a real browser (skipped where there is none)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.observe import timeline_page
from sundog.observe.index import opened

WORKER, DRIVER = b"\xcd" * 8, b"\xef" * 8
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,600",
    "--virtual-time-budget=4000",
)
ASK = """<script>{
const seen = window.sundogTimeline;
seen.search("resize");
const found = document.getElementById("hits").textContent;
const canvas = document.getElementById("view"), box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -500, clientX: box.left + 600, clientY: box.top + 200}));
const [first, last] = seen.range();
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const shades = new Set();
for (let k = 0; k < pixels.length; k += 4) shades.add(pixels[k] * 65536 + pixels[k + 1] * 256 + pixels[k + 2]);
document.title = JSON.stringify({slices: seen.slices, found, zoomed: last - first, shades: shades.size});
}</script></body>"""


def make_page(folder: Path, count: int) -> str:
    (folder / "rings").mkdir()
    worker = events.Ring(str(folder / "rings" / f"{WORKER.hex()}.ring"), 1 << 17, "worker")
    driver = events.Ring(str(folder / "rings" / f"{DRIVER.hex()}.ring"), 64, "driver")
    names = [worker.name("load"), worker.name("resize"), worker.name("</script><b>&")]
    for number in range(count):
        task = DRIVER + number.to_bytes(8, "little")
        start = 100.0 + number * 0.001
        flags = events.FAILED if number % 7 == 0 else 0
        worker.write(events.TASK, task, names[number % 3], 100.0, start, start + 0.0008, flags)
    driver.write(events.GET, DRIVER + bytes(8), driver.name("a.py:3 in main"), 100.0, 100.0, 101.0)
    with opened(str(folder)) as index:
        text = timeline_page.page(index, "session_1")
    worker.close()
    driver.close()
    return text


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    read: dict[str, object] = json.loads(found[1])
    return read


def test_the_page_has_every_slice_and_loads_nothing(tmp_path: Path) -> None:
    page = make_page(tmp_path, 21)
    data = data_of(page)
    rows: list[dict[str, list[float]]] = data["rows"]  # type: ignore[assignment]
    assert sorted(len(row["s"]) for row in rows) == [1, 21]
    assert data["names"][:3] == ["load", "resize", "</script><b>&"]  # type: ignore[index]
    assert not re.search(r"(src|href)=", page) and "@import" not in page and "fetch(" not in page


def test_of_too_many_slices_the_shortest_are_left_out_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_page, "SLICES_MAX", 10)
    data = data_of(make_page(tmp_path, 40))
    assert "are not drawn" in str(data["about"])
    assert sum(each["count"] for each in data["functions"]) == 40  # type: ignore[attr-defined]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: the page is not looked at in a browser")
@pytest.mark.parametrize("count", [20, 50_000])
def test_the_page_is_drawn_searched_and_zoomed_in_a_real_browser(tmp_path: Path, count: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(make_page(tmp_path, count).replace("</body>", ASK))
    ended = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{page}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    title = re.search(r"<title>(.*?)</title>", ended.stdout)
    assert title is not None, ended.stderr[-2000:]
    seen = json.loads(title[1])
    assert seen["slices"] == count + 1
    assert seen["found"] == f"{len(range(1, count, 3)):,} found"
    assert 0 < seen["zoomed"] < max(1e6, count * 1000) and seen["shades"] > 10


def test_nodes_of_a_cluster_have_a_row_each_above_their_workers(tmp_path: Path) -> None:
    make_page(tmp_path, 3)
    ids = ["ab" * 28, "cd" * 28]
    with opened(str(tmp_path)) as index:
        for at_s, node, state, ended in (
            (0.0, ids[0], "ALIVE", False),
            (1.0, ids[1], "ALIVE", False),
            (99.0, ids[1], "DEAD", True),
        ):
            row = {
                "node_id": node,
                "state": state,
                "state_message": "it was idle",
                "is_ended": ended,
                "resources_total": {"CPU": 2.0},
            }
            index.db.execute(
                "INSERT INTO facts VALUES(?, 'node', x'', ?, ?)", (at_s, node, json.dumps({"row": row}))
            )
        data = data_of(timeline_page.page(index, "session_1"))
    rows: Any = data["rows"]
    nodes = [row for row in rows if row["kind"] == "node"]
    assert [row["label"] for row in nodes] == [f"node {node[:8]}" for node in ids]
    names: Any = data["names"]
    assert [names[row["n"][0]] for row in nodes] == ["node with 2 CPUs", "node with 2 CPUs: it was idle"]
    assert [row["f"] for row in nodes] == [[0], [0]]  # it was ended on purpose
