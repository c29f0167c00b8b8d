"""Loops, and whether their turns need each other."""

from pathlib import Path

import pytest

from sundog.advice.source import Sources
from sundog.advice.turns import (
    loop_at,
    outer_of,
    turns_are_alike,
    turns_need_each_other,
)


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
        "def load(x):\n    r = ray.get(f.remote(x))\n    if r is None:\n        return 0\n    return r\n"
        "for x in xs:\n    out.append(load(x))",
        "for x in xs:\n    rows = ray.get(f.remote(x))\n    for row in rows:\n        if row:\n            break",
        "def load(x):\n    for attempt in range(3):\n        try:\n            return ray.get(f.remote(x, attempt))\n"
        "        except OSError as error:\n            last = error\nfor x in xs:\n    out.append(load(x))",
        "class A:\n    def load(self, x):\n        return ray.get(f.remote(x))\n    def row(self, x):\n"
        "        self.rows[x] = self.load(x)\nfor x in xs:\n    a.row(x)",
        "class A:\n    async def one(self, x):\n        async with self.limit:\n"
        "            self.out[x] = ray.get(f.remote(x))\n    async def all(self):\n        for x in xs:\n"
        "            await self.one(x)",
        "def load(x):\n    return ray.get(f.remote(x))\nout = list(map(load, xs))",
        "out = list(filter(lambda x: ray.get(f.remote(x)) > 3, xs))",
        "out = sorted(xs, key=lambda x: ray.get(f.remote(x)))",
        "def task(g):\n    def call(x):\n        return ray.get(g.remote(x))\n    return call\n"
        "@task\ndef load(x): ...\nfor x in xs:\n    out.append(load(x))",
        "def task(n):\n    def made(g):\n        def call(x):\n            return ray.get(g.remote(x, n))\n"
        "        return call\n    return made\n@task(3)\ndef load(x): ...\nout = [load(x) for x in xs]",
        "def client(url):\n    def load(x):\n        return ray.get(f.remote(url, x))\n    return load\n"
        "fetch = client('a')\nout = {x: fetch(x) for x in xs}",
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
        "class A:\n    def page(self):\n        return ray.get(f.remote(self.at))\n    def next(self):\n"
        "        self.at = self.page().at\na = A()\nwhile True:\n    a.next()",
        "class A:\n    def next(self):\n        self.at = ray.get(f.remote(self.key()))\n    def key(self):\n"
        "        return str(self.at)\na = A()\nfor _ in xs:\n    a.next()",
        "class A:\n    def next(self):\n        self.last = ray.get(f.remote())\n    def is_done(self):\n"
        "        return self.last < 0\na = A()\nwhile not a.is_done():\n    a.next()",
        "def load(x):\n    global last\n    last = ray.get(f.remote(x, last))\n"
        "    return last\nout = list(map(load, xs))",
        "class A:\n    def ask(self):\n        return max(self.seen)\n    def tell(self, x, y):\n"
        "        self.seen.append((x, y))\n    def step(self):\n        x = self.ask()\n"
        "        y = ray.get(f.remote(x))\n        self.tell(x, y)\n    def run(self):\n        for _ in xs:\n"
        "            self.step()",
        "def page(at):\n    while True:\n        try:\n            return ray.get(f.remote(at))\n"
        "        except OSError:\n            time.sleep(1)\nwhile at:\n    at = page(at)",
        "def page(at):\n    for _ in range(3):\n        try:\n            got = ray.get(f.remote(at))\n"
        "        except OSError:\n            continue\n        else:\n            break\n    return got\n"
        "while at:\n    at = page(at)",
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


@pytest.mark.parametrize(
    ("text", "is_needed"),
    [
        ("for x in xs:\n    pool.submit(lambda a, v: a.f.remote(v), x)\n    out.append(pool.get_next())", False),
        ("for x in xs:\n    pool.submit(lambda a, v: a.f.remote(v), y)\n    y = pool.get_next()", True),
        ("class A:\n    def add(self, x):\n        self.found[x] = self.pool.apply(f, (x,))\n"
         "for x in xs:\n    a.add(x)", False),
        ("for x in xs:\n    y = pool.apply(f, (x, y))", True),
        ("for x in xs:\n    ready, _ = ray.wait([f.remote(x)])\n    out += ray.get(ready)", False),
    ],
)  # fmt: skip
def test_a_line_that_waits_in_a_library_or_in_wait_has_a_loop_too(
    text: str, is_needed: bool, tmp_path: Path
) -> None:
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}\n")
    words = ("get_next", "apply", "ray.wait")
    line = next(n for n, each in enumerate(file.read_text().splitlines(), 1) if any(w in each for w in words))
    found = loop_at(Sources(), f"{file}:{line} in f")
    assert found is not None
    assert found.loop is not None
    assert turns_need_each_other(found) == is_needed


@pytest.mark.parametrize(
    ("text", "is_alike"),
    [
        ("for _ in range(9):\n    print(ray.get([a.step.remote() for a in actors]))", True),
        ("def step(a):\n    return ray.get(a.step.remote())\nfor _ in range(9):\n    out.append(step(env))", True),
        ("n = 0\nwhile n < 9:\n    ray.get(a.step.remote(rate))\n    n += 1", True),
        ("for a in actors:\n    print(ray.get(a.step.remote()))", False),
        ("for x in xs:\n    ray.get(a.step.remote(x))", False),
        ("for x in xs:\n    y = x + 1\n    ray.get([a.step.remote(y) for a in actors])", False),
        ("def step(a, x):\n    return ray.get(a.step.remote(x))\nfor x in xs:\n    out.append(step(env, x))", False),
    ],
)  # fmt: skip
def test_turns_that_submit_the_same_are_alike(text: str, is_alike: bool, tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}\n")
    line = next(n for n, each in enumerate(file.read_text().splitlines(), 1) if "ray.get(" in each)
    found = loop_at(Sources(), f"{file}:{line} in f")
    assert found is not None
    assert turns_are_alike(found) == is_alike


def test_a_function_that_is_given_to_reduce_has_no_loop(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text("import sundog as ray\nt = reduce(lambda a, b: ray.get(add.remote(a, b)), xs)\n")
    found = loop_at(Sources(), f"{file}:2 in <lambda>")
    assert found is not None
    assert found.loop is None


def test_the_loop_around_a_loop_may_be_in_the_caller_of_its_function(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\ndef epoch(w):\n    return [ray.get(f.remote(s, w)) for s in shards]\n"
        "for _ in range(3):\n    w = mean(epoch(w))\n"
    )
    found = loop_at(Sources(), f"{file}:3 in epoch")
    assert found is not None
    assert not turns_need_each_other(found)
    outer = outer_of(Sources(), found)
    assert outer is not None
    assert outer.loop is not None
    assert outer.loop.lineno == 4
