"""Loops, and whether their turns need each other."""

from pathlib import Path

import pytest

from sundog.advice.source import Sources
from sundog.advice.turns import loop_at, turns_need_each_other


def needs(tmp_path: Path, text: str, **others: str) -> bool:
    """Whether the turns of the loop of the first get need each other."""
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}")
    sources = Sources()
    for name, body in others.items():
        (tmp_path / f"{name}.py").write_text(body)
        sources.of(str(tmp_path / f"{name}.py"))
    line = next(number for number, each in enumerate(file.read_text().splitlines(), 1) if "ray.get(" in each)
    found = loop_at(sources, f"{file}:{line} in f")
    assert found is not None
    assert found.loop is not None
    return turns_need_each_other(found)


@pytest.mark.parametrize(
    "text",
    [
        "for x in xs:\n    out.append(ray.get(f.remote(x)))",
        "out = [ray.get(f.remote(x)) for x in xs]",
        "for x in xs:\n    r = ray.get(f.remote(x))\n    total += r",
        "for x in xs:\n    r = ray.get(f.remote(x))\n    s = ray.get(g.remote(r))\n    out.append(s)",
        "i = 0\nwhile i < 10:\n    out[i] = ray.get(f.remote(i))\n    i += 1",
        "for x in xs:\n    if x:\n        out[x] = ray.get(f.remote(x))",
        "for name, x in plan:\n    r = ray.get(f.remote(name, x))\n    report(name, r)",
        "def load(x):\n    return ray.get(f.remote(x))\nout = {x: load(x) for x in xs}",
        "def load(x):\n    return ray.get(f.remote(x))\ndef one(x):\n    return len(load(x))\n"
        "for x in xs:\n    out += one(x)",
        "class A:\n    def fit(self):\n        for x in xs:\n            s = ray.get(f.remote(self.data, x))\n"
        "            self.note(s)\n    def note(self, s):\n        self.results.append(s)",
        "while len(out) < 9:\n    r = ray.get(f.remote(n))\n    out.append(r)\n    n += 1",
        "for e in range(3):\n    total = 0\n    for s in shards:\n        total += ray.get(g.remote(s, w))\n"
        "    w = w - total",
    ],
)
def test_turns_that_only_collect_do_not_need_each_other(tmp_path: Path, text: str) -> None:
    assert not needs(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "x = 0\nfor _ in xs:\n    x = ray.get(f.remote(x))",
        "for x in xs:\n    state = ray.get(f.remote(state, x))",
        "for x in xs:\n    r = ray.get(f.remote(total))\n    total += r",
        "for x in xs:\n    params = step(ray.get(f.remote(params)))",
        "for x in xs:\n    if ray.get(f.remote(x)):\n        break",
        "while not done:\n    done = ray.get(f.remote(1))",
        "while len(good) < 9:\n    r = ray.get(f.remote(n))\n    if r > 0:\n        good.append(r)\n    n += 1",
        "while len(good) < 9:\n    r = ray.get(f.remote(n))\n    if r < 0:\n"
        "        continue\n    good.append(r)",
        "for x in xs:\n    grads = ray.get([f.remote(model.w) for _ in ys])\n    model.w = model.w - mean(grads)",
        "for x in xs:\n    r = ray.get(f.remote(seen))\n    seen.append(r)",
        "for _ in xs:\n    x = opt.ask()\n    y = ray.get(f.remote(x))\n    opt.tell(x, y)",
        "for _ in xs:\n    ref = ray.put(w)\n    w = w + sum(ray.get([f.remote(ref) for _ in ys]))",
        "for _ in xs:\n    update(model, ray.get(f.remote(model.weights)))",
        "def step(state):\n    return ray.get(f.remote(state))\nfor _ in xs:\n    state = step(state)",
        "class A:\n    def step(self):\n        self.w = ray.get(f.remote(self.w))\n    def run(self):\n"
        "        for _ in xs:\n            self.step()",
        "class A:\n    def run(self):\n        for _ in xs:\n            g = ray.get(f.remote(self.w))\n"
        "            self.add(g)\n    def add(self, g):\n        self.w = self.w - g",
        "for _ in xs:\n    parts = ray.get([f.remote(part) for part in parts])\n    parts = sort(parts)",
        "class A:\n    def step(self, e):\n        self.cells = e\nfor _ in xs:\n"
        "    edges = ray.get([a.edges.remote() for a in actors])\n"
        "    alive = ray.get([a.step.remote(edges[n]) for n, a in enumerate(actors)])",
        "for x in xs:\n    a = ray.get(f.remote(x, last))\n    last = ray.get(g.remote(a))",
    ],
)
def test_a_turn_that_uses_what_the_one_before_got_needs_it(tmp_path: Path, text: str) -> None:
    assert needs(tmp_path, text)


def test_a_loop_in_another_file_is_found(tmp_path: Path) -> None:
    main = "from prog import load\nfor x in xs:\n    print(load(x))"
    assert not needs(tmp_path, "def load(x):\n    return ray.get(f.remote(x))", main=main)


def test_a_get_that_nothing_repeats_has_no_loop(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text("import sundog as ray\ndef a():\n    return ray.get(f.remote(1))\na()\n")
    found = loop_at(Sources(), f"{file}:3 in a")
    assert found is not None
    assert found.loop is None
