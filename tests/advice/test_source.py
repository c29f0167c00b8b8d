"""The user's lines: loops, and whether their turns need each other."""

import ast
from pathlib import Path

import pytest

from sundog.advice.source import Source, Sources, place_of, turns_need_each_other


def source(text: str) -> Source:
    return Source("prog.py", f"import sundog as ray\n{text}")


def needs(text: str) -> bool:
    """Whether the turns of the first loop need each other, by its gets."""
    found = source(text)
    get = next(node for node in ast.walk(found.tree) if found.is_verb(node, "get"))
    loop = found.loop_of(get)
    assert loop is not None
    gets = [node for node in ast.walk(found.tree) if found.is_verb(node, "get")]
    return turns_need_each_other(found, loop, gets)


@pytest.mark.parametrize(
    "text",
    [
        "for x in xs:\n    out.append(ray.get(f.remote(x)))",
        "out = [ray.get(f.remote(x)) for x in xs]",
        "for x in xs:\n    r = ray.get(f.remote(x))\n    total += r",
        "for x in xs:\n    r = ray.get(f.remote(x))\n    s = ray.get(g.remote(r))\n    out.append(s)",
        "i = 0\nwhile i < 10:\n    out[i] = ray.get(f.remote(i))\n    i += 1",
        "for x in xs:\n    if x:\n        out[x] = ray.get(f.remote(x))",
    ],
)
def test_turns_that_only_collect_do_not_need_each_other(text: str) -> None:
    assert not needs(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = 0\nfor _ in xs:\n    x = ray.get(f.remote(x))",
        "for x in xs:\n    state = ray.get(f.remote(state, x))",
        "for x in xs:\n    r = ray.get(f.remote(total))\n    total += r",
        "for x in xs:\n    params = step(ray.get(f.remote(params)))",
        "for x in xs:\n    if ray.get(f.remote(x)):\n        break",
        "while not done:\n    done = ray.get(f.remote(1))",
        "for x in xs:\n    grads = ray.get([f.remote(model.w) for _ in ys])\n    model.w = model.w - mean(grads)",
        "for x in xs:\n    r = ray.get(f.remote(seen))\n    seen.append(r)",
    ],
)
def test_a_turn_that_uses_what_the_one_before_got_needs_it(text: str) -> None:
    assert needs(text)


def test_what_a_loop_iterates_over_is_not_in_the_loop() -> None:
    found = source("for r in ray.get(refs):\n    print(r)")
    get = next(node for node in ast.walk(found.tree) if found.is_verb(node, "get"))
    assert found.loop_of(get) is None


def test_verbs_are_known_by_any_name_that_the_file_gives_them() -> None:
    found = Source("a.py", "from ray import get as g\nimport ray as r\nx = g(1)\ny = r.get(1)\nz = {}.get(1)")
    assert [bool(found.calls(line, "get")) for line in (3, 4, 5)] == [True, True, False]


def test_a_site_names_a_place() -> None:
    place = place_of("/a b/c.py:12 in Class.method")
    assert place is not None
    assert (place.file, place.line, place.function) == ("/a b/c.py", 12, "Class.method")
    assert place_of("<stdin>") is None


def test_a_file_that_cannot_be_read_or_parsed_is_none(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def (:")
    sources = Sources()
    assert sources.of(str(tmp_path / "missing.py")) is None
    assert sources.at(f"{tmp_path}/bad.py:1 in f") is None


def test_a_definition_is_found_by_its_qualified_name() -> None:
    found = source("class A:\n    def run(self): ...\nclass B:\n    def run(self): ...")
    definition = found.definition("B.run")
    assert definition is not None
    assert definition.lineno == 5
