"""The user's lines: loops, and whether their turns need each other."""

import ast
from pathlib import Path

from sundog.advice.source import Source, Sources, place_of


def source(text: str) -> Source:
    return Source("prog.py", f"import sundog as ray\n{text}")


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


def test_a_loop_over_the_result_of_one_task_takes_from_a_stream() -> None:
    found = source(
        "a = [f.remote(ref) for ref in g.remote(3)]\n"
        "stream = g.options(num_cpus=2).remote(3)\n"
        "for number, ref in enumerate(stream):\n"
        "    f.remote(ref)\n"
        "refs = [g.remote(x) for x in range(3)]\n"
        "for ref in refs:\n"
        "    ray.get(ref)\n"
    )
    assert [found.takes_from_stream(line) for line in (2, 5, 6, 8)] == [True, True, False, False]
