"""A profile as pictures: one HTML page that needs nothing else, and the format of speedscope.

Owns both forms. The page draws nested bars, the remote functions at the top; a click zooms in, a search marks. Pure:
rows in, text out.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING

from sundog.profiling.merge import overhead, stacks_of
from sundog.profiling.rows import Profile, ProfileFrame

if TYPE_CHECKING:
    from typing import TypedDict

    from sundog.plain import JsonObject

    class FlameBar(TypedDict):
        """A bar as the page reads it: name, place, seconds, children."""

        n: str
        p: str
        s: float
        c: list[FlameBar]

    class _Bar(TypedDict):
        """A bar while its children are still found by their place and name."""

        n: str
        p: str
        s: float
        c: dict[tuple[str, str], _Bar]


_SMALLEST = 0.0005  # bars below this share of the whole are too small to read and are not drawn


def speedscope(profile: Profile) -> JsonObject:
    """What https://www.speedscope.app opens: one profile for each remote function."""
    frames: dict[tuple[str, str], int] = {}
    rows: list[dict[str, str | int]] = []

    def index_of(frame: ProfileFrame) -> int:
        key = (frame.name, frame.path)
        if key not in frames:
            frames[key] = len(frames)
            rows.append({"name": frame.name, "file": frame.path, "line": frame.line})
        return frames[key]

    by_label: dict[str, tuple[list[list[int]], list[float]]] = {}
    for (label, stack), (seconds, _) in stacks_of(profile.parts).items():
        samples, weights = by_label.setdefault(label, ([], []))
        samples.append([index_of(frame) for frame in stack])
        weights.append(seconds)
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"{profile.kind} profile of {profile.what}",
        "exporter": "sundog",
        "shared": {"frames": rows},
        "profiles": [
            {
                "type": "sampled",
                "name": label,
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
            for label, (samples, weights) in sorted(by_label.items(), key=lambda row: -sum(row[1][1]))
        ],
    }


def tree(profile: Profile) -> FlameBar:
    """The stacks as a tree of bars: name, place, seconds, children."""
    root: _Bar = {"n": "all", "p": "", "s": 0.0, "c": {}}
    for (label, stack), (seconds, _) in stacks_of(profile.parts).items():
        root["s"] += seconds
        at = root["c"].setdefault(("", label), {"n": label, "p": "remote function", "s": 0.0, "c": {}})
        at["s"] += seconds
        for frame in stack:
            key = (frame.path, frame.name)
            at = at["c"].setdefault(
                key, {"n": frame.name, "p": f"{frame.path}:{frame.line}", "s": 0.0, "c": {}}
            )
            at["s"] += seconds
    return _listed(root, root["s"] * _SMALLEST)


def _listed(bar: _Bar, smallest: float) -> FlameBar:
    children = sorted(bar["c"].values(), key=lambda each: -each["s"])
    kept = [_listed(each, smallest) for each in children if each["s"] >= smallest]
    return {"n": bar["n"], "p": bar["p"], "s": round(bar["s"], 6), "c": kept}


def page(profile: Profile) -> str:
    """The flame graph as one HTML page."""
    title = html.escape(f"{profile.kind} profile of {profile.what}")
    data = json.dumps(tree(profile)).replace("</", "<\\/")
    note = f"{len(profile.parts)} processes; the looks took {overhead(profile.parts):.1%} of one processor at most"
    return _PAGE.replace("@title@", title).replace("@note@", html.escape(note)).replace("@data@", data)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@title@</title>
<style>
 body { font: 13px system-ui, sans-serif; margin: 16px; color: #222; background: #fff }
 #flame { position: relative; margin-top: 12px }
 .bar { position: absolute; height: 19px; overflow: hidden; white-space: nowrap; border-radius: 2px; cursor: pointer;
        padding: 1px 4px; box-sizing: border-box; border: 1px solid #fff; text-overflow: ellipsis }
 .bar:hover { filter: brightness(0.92) } .found { outline: 2px solid #06c; z-index: 1 } .outer { opacity: 0.55 }
 #about { min-height: 3em; margin-top: 10px; font-family: ui-monospace, monospace; white-space: pre-wrap }
 input { font: inherit; padding: 3px 6px } p { margin: 4px 0 10px }
 @media (prefers-color-scheme: dark) {
   body { color: #ddd; background: #16181c } .bar { color: #111; border-color: #16181c }
 }
</style></head><body>
<h2>@title@</h2><p>@note@. Click a bar to look closer, the top one to go back.</p>
<label>Search <input id="search" type="search" placeholder="function or file"></label>
<div id="flame" role="img" aria-label="@title@"></div><div id="about"></div>
<script>
const root = @data@;
const flame = document.getElementById("flame"), about = document.getElementById("about");
let focus = root, path = [root];
function colour(bar, depth) {
  if (depth === 0) return "#d7d7d7";
  if (bar.p === "remote function") return "#f2a65a";
  let sum = 0; for (const c of bar.p.split(":")[0]) sum = (sum * 31 + c.charCodeAt(0)) % 997;
  return `hsl(${20 + sum % 45} 85% ${66 + sum % 12}%)`;
}
function draw() {
  flame.textContent = ""; let deepest = 0;
  const width = flame.clientWidth || 1000, word = document.getElementById("search").value.toLowerCase();
  function put(bar, left, share, depth, outer) {
    const w = width * share; if (w < 1) return;
    deepest = Math.max(deepest, depth);
    const div = document.createElement("div");
    div.className = "bar" + (outer ? " outer" : "") +
      (word && (bar.n + " " + bar.p).toLowerCase().includes(word) ? " found" : "");
    div.style.cssText = `left:${left}px;width:${w}px;top:${depth * 20}px;background:${colour(bar, depth)}`;
    div.textContent = bar.n;
    div.title = `${bar.n}\\n${bar.p}\\n${bar.s.toFixed(3)} s, ${(100 * bar.s / root.s).toFixed(1)} %`;
    div.onmouseenter = () => { about.textContent = div.title; };
    div.onclick = () => {
      const at = path.indexOf(bar);
      path = at >= 0 ? path.slice(0, at + 1) : [...path, ...way(focus, bar)];
      focus = bar; draw();
    };
    flame.append(div);
    if (outer) return;
    let x = left;
    for (const child of bar.c) {
      put(child, x, share * child.s / bar.s, depth + 1, false);
      x += width * share * child.s / bar.s;
    }
  }
  path.slice(0, -1).forEach((bar, depth) => put(bar, 0, 1, depth, true));
  put(focus, 0, 1, path.length - 1, false);
  flame.style.height = `${(deepest + 1) * 20 + 4}px`;
}
function way(from, to) {
  for (const child of from.c) {
    if (child === to) return [child];
    const found = way(child, to);
    if (found.length) return [child, ...found];
  }
  return [];
}
document.getElementById("search").oninput = draw; window.onresize = draw; draw();
</script></body></html>
"""
